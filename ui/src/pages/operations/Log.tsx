// The log of one operation, the oldest line first. The stream announces new lines.
import { useQuery } from "@tanstack/react-query";
import type { OperationNoteOut } from "@/api/schema";
import { QueryView } from "@/kit/QueryView";
import { logQuery } from "@/pages/operations/queries";
import { formatMoment, timeOfDay } from "@/text/format";

export function Log({ id }: { id: string }) {
  const query = useQuery(logQuery(id));
  return (
    <QueryView query={query}>
      {(notes) => (
        <ol className="plain operations-log">
          {notes.map((note, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines are only ever added at the end
            <LogLine key={place} note={note} />
          ))}
        </ol>
      )}
    </QueryView>
  );
}

function LogLine({ note }: { note: OperationNoteOut }) {
  const where = note.node_name && !note.text.startsWith(`${note.node_name}:`) ? `${note.node_name}: ` : "";
  return (
    <li className={note.level === "info" ? undefined : `operations-${note.level}`}>
      <time dateTime={note.at} title={formatMoment(note.at)} className="number faint">
        {timeOfDay(note.at)}
      </time>
      <span>
        {note.level !== "info" && <strong>{note.level}: </strong>}
        {where && <strong>{where}</strong>}
        {note.text}
      </span>
    </li>
  );
}
