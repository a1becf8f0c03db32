// The schedule of a task: a cron pattern with its next times, the time zone, and what happens to times that collide or
// are missed.
import { useQuery } from "@tanstack/react-query";
import { useId } from "react";
import { asProblem } from "@/api/client";
import type { SchedulePreviewOut } from "@/api/schema";
import { Select, TextArea, TextField } from "@/kit/fields";
import { Panel } from "@/kit/Panel";
import { useSettled } from "@/kit/useSettled";
import { scheduleQuery } from "@/pages/tasks/queries";
import { CATCH_UP_WORDS, OVERLAP_WORDS } from "@/pages/tasks/schedule";
import type { SectionProps } from "@/pages/tasks/TaskFormPage";
import { placeTaskProblem } from "@/pages/tasks/taskForm";

const EXAMPLES = [
  ["0 9 * * *", "Every day at 9"],
  ["0 8 * * 1-5", "Weekdays at 8"],
  ["0 * * * *", "Every hour"],
  ["*/15 * * * *", "Every 15 minutes"],
] as const;
const ZONES = ["UTC", ...Intl.supportedValuesOf("timeZone")];

export function ScheduleSection({ form, faults, set, names }: SectionProps & { names: readonly string[] }) {
  const isScheduled = form.cron.trim() !== "";
  const zones = useId();
  const [cron, timeZone] = useSettled([form.cron.trim(), form.timeZone.trim()] as const);
  const preview = useQuery({ ...scheduleQuery(cron, timeZone), enabled: cron !== "" });
  // The server's word on what is typed; a fault of the connection is about neither field.
  const typed = isScheduled && preview.error ? placeTaskProblem(asProblem(preview.error), form) : null;
  return (
    <Panel title="Schedule" note="Without a pattern, the task runs only when you or a program starts it.">
      <div className="columns">
        <div className="stack tight">
          <TextField
            label="Cron pattern"
            hint="Minute, hour, day, month, day of the week. Empty: no schedule."
            value={form.cron}
            error={typed?.cron ?? faults.cron ?? null}
            placeholder="0 9 * * *"
            maxLength={200}
            onChange={(event) => set({ cron: event.target.value })}
          />
          <div className="row tasks-examples">
            {EXAMPLES.map(([cron, label]) => (
              <button
                key={cron}
                type="button"
                className="button quiet small-button"
                onClick={() => set({ cron })}
              >
                {label}
              </button>
            ))}
          </div>
        </div>
        <TextField
          label="Time zone"
          value={form.timeZone}
          error={typed?.time_zone ?? faults.time_zone ?? null}
          list={zones}
          maxLength={100}
          disabled={!isScheduled}
          onChange={(event) => set({ timeZone: event.target.value })}
        />
        <datalist id={zones}>
          {ZONES.map((zone) => (
            <option key={zone} value={zone} />
          ))}
        </datalist>
      </div>
      {isScheduled && preview.data && !preview.error && <NextTimes preview={preview.data} />}
      {isScheduled && (
        <div className="columns">
          <Select
            label="If an earlier scheduled job is still open"
            value={form.overlap}
            onChange={(event) => set({ overlap: event.target.value as typeof form.overlap })}
          >
            {Object.entries(OVERLAP_WORDS).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </Select>
          <Select
            label="If times were missed because the cluster was down"
            value={form.catchUp}
            onChange={(event) => set({ catchUp: event.target.value as typeof form.catchUp })}
          >
            {Object.entries(CATCH_UP_WORDS).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </Select>
        </div>
      )}
      {isScheduled && names.length > 0 && (
        <fieldset className="tasks-group">
          <legend>Parameters of scheduled jobs</legend>
          <div className="columns">
            {names.map((name) => (
              <TextArea
                key={name}
                label={name}
                rows={1}
                className="tasks-parameter"
                value={form.cronParameters[name] ?? ""}
                onChange={(event) =>
                  set({ cronParameters: { ...form.cronParameters, [name]: event.target.value } })
                }
              />
            ))}
          </div>
        </fieldset>
      )}
    </Panel>
  );
}

/** A pattern in words and its next times, on the clock of its zone. */
function NextTimes({ preview }: { preview: SchedulePreviewOut }) {
  const format = new Intl.DateTimeFormat("en-GB", {
    weekday: "short",
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
    timeZone: preview.time_zone,
  });
  return (
    <div className="tasks-next" role="status">
      <p>
        Runs {preview.words}, <span className="soft">{preview.time_zone}</span>
      </p>
      <p className="small soft">Next times:</p>
      <ol className="plain tasks-times" aria-label="Next times">
        {preview.next_runs.map((start) => (
          <li key={start}>
            <time className="number" dateTime={start}>
              {format.format(new Date(start))}
            </time>
          </li>
        ))}
      </ol>
    </div>
  );
}
