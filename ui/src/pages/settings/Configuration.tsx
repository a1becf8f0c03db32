// What the frontend that answers runs with, and by whom; live settings can be changed. Secrets are masked by the frontend.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import type { SettingOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Checkbox, Search } from "@/kit/fields";
import { Empty, Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { changeSetting, settings } from "@/pages/settings/calls";
import { isChangeable, isChanged, isSet, sectionsOf, valueWords, variableOf } from "@/pages/settings/listing";
import { useAddress } from "@/shell/useAddress";

export function Configuration() {
  const [{ q = "", set = false }, say] = useAddress("/settings");
  const asked = useQuery(settings);
  return (
    <div className="stack">
      <div className="row">
        <Search label="Search settings" value={q} onChange={(term) => say({ q: term || undefined }, true)} />
        <Checkbox
          label="Only what differs from the defaults"
          checked={set}
          onChange={(event) => say({ set: event.target.checked || undefined })}
        />
      </div>
      <Answered query={asked}>
        {(data) => {
          const sections = sectionsOf(data.settings, q, set);
          return (
            <>
              <p className="soft">
                These are the settings of the frontend <code>{data.answered_by}</code>. Those with a field are
                changed here, for all frontends at once. The others are read at its start: change them in its
                environment or its file, and restart it.
              </p>
              {sections.length === 0 && (
                <Empty title="No setting is like that.">Another word finds more.</Empty>
              )}
              {sections.map((section) => (
                <Panel key={section.name} title={titled(section.name)}>
                  <dl className="settings-settings">
                    {section.settings.map((setting) => (
                      <Setting key={setting.name} setting={setting} />
                    ))}
                  </dl>
                </Panel>
              ))}
            </>
          );
        }}
      </Answered>
    </div>
  );
}

function Setting({ setting }: { setting: SettingOut }) {
  return (
    <div className={isSet(setting) ? "settings-setting settings-set" : "settings-setting"}>
      <dt title={variableOf(setting)}>
        <code>{setting.name}</code>
        <p className="small soft">{setting.sentence}</p>
      </dt>
      <dd>
        {isChangeable(setting) ? (
          <Change key={setting.value} setting={setting} />
        ) : (
          <code className={setting.is_secret || setting.value === null ? "faint" : undefined}>
            {valueWords(setting)}
          </code>
        )}
        {isSet(setting) && (
          <Tag tone="busy" title={setting.source}>
            {setting.source}
          </Tag>
        )}
      </dd>
    </div>
  );
}

function Change({ setting }: { setting: SettingOut }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (value: string | null) => changeSetting(setting.name, value),
    onSuccess: (told) => queries.setQueryData(settings.queryKey, told),
  });
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    change.mutate(String(new FormData(event.currentTarget).get("value")).trim());
  };
  return (
    <form className="settings-change" onSubmit={submit}>
      <input
        aria-label={setting.name}
        name="value"
        defaultValue={setting.value ?? ""}
        maxLength={1000}
        required
        autoComplete="off"
      />
      <Button small type="submit" busy={change.isPending} aria-label={`Save ${setting.name}`}>
        Save
      </Button>
      {isChanged(setting) && (
        <Button small onClick={() => change.mutate(null)} aria-label={`Reset ${setting.name}`}>
          Reset
        </Button>
      )}
      <Trouble error={change.error} />
    </form>
  );
}

const titled = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);
