// The log of one operation, the oldest line first. The stream says when there is more of it.
import { useQuery } from "@tanstack/react-query";
import type { NoteOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { log } from "@/pages/operations/queries";
import { clock, timeOfDay } from "@/text/format";

export function Log({ id }: { id: string }) {
  const query = useQuery(log(id));
  return (
    <Answered query={query}>
      {(notes) => (
        <ol className="plain operations-log">
          {notes.map((note, place) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: lines are only ever added at the end
            <Line key={place} note={note} />
          ))}
        </ol>
      )}
    </Answered>
  );
}

function Line({ note }: { note: NoteOut }) {
  const where = note.node_name && !note.text.startsWith(`${note.node_name}:`) ? `${note.node_name}: ` : "";
  return (
    <li className={note.level === "info" ? undefined : `operations-${note.level}`}>
      <time dateTime={note.at} title={clock(note.at)} className="number faint">
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
