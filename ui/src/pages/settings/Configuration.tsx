// The settings of the frontend that answers, with their origin; live ones can be changed. The frontend masks secrets.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import type { FormEvent } from "react";
import type { SettingOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Checkbox, SearchField } from "@/kit/fields";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { Tag } from "@/kit/status";
import { changeSetting, settings } from "@/pages/settings/calls";
import {
  groupSettings,
  isChangeable,
  isChanged,
  isChangedFromDefault,
  makeVariableName,
  valueWords,
} from "@/pages/settings/settingsLists";
import { usePageSearch } from "@/shell/usePageSearch";

export function Configuration() {
  const [{ q = "", set = false }, setSearch] = usePageSearch("/settings");
  const query = useQuery(settings);
  return (
    <div className="stack">
      <div className="row">
        <SearchField
          label="Search settings"
          value={q}
          onChange={(term) => setSearch({ q: term || undefined }, true)}
        />
        <Checkbox
          label="Only changed settings"
          checked={set}
          onChange={(event) => setSearch({ set: event.target.checked || undefined })}
        />
      </div>
      <QueryView query={query}>
        {(data) => {
          const sections = groupSettings(data.settings, q, set);
          return (
            <>
              <p className="soft">
                Settings of frontend <code>{data.answered_by}</code>. Editable settings apply to all frontends
                at once; the others are read at start: change them in the environment or the file of a
                frontend, and restart it.
              </p>
              {sections.length === 0 && (
                <EmptyState title="No settings match this filter.">Change the search.</EmptyState>
              )}
              {sections.map((section) => (
                <Panel key={section.name} title={capitalise(section.name)}>
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
      </QueryView>
    </div>
  );
}

function Setting({ setting }: { setting: SettingOut }) {
  return (
    <div className={isChangedFromDefault(setting) ? "settings-setting settings-set" : "settings-setting"}>
      <dt title={makeVariableName(setting)}>
        <code>{setting.name}</code>
        <p className="small soft">{setting.sentence}</p>
      </dt>
      <dd>
        {isChangeable(setting) ? (
          <ChangeForm key={setting.value} setting={setting} />
        ) : (
          <code className={setting.is_secret || setting.value === null ? "faint" : undefined}>
            {valueWords(setting)}
          </code>
        )}
        {isChangedFromDefault(setting) && (
          <Tag tone="busy" title={setting.source}>
            {setting.source}
          </Tag>
        )}
      </dd>
    </div>
  );
}

function ChangeForm({ setting }: { setting: SettingOut }) {
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (value: string | null) => changeSetting(setting.name, value),
    onSuccess: (changed) => queries.setQueryData(settings.queryKey, changed),
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
      <ErrorNotice error={change.error} />
    </form>
  );
}

const capitalise = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);
