// What the frontend that answers was told at its start, and by whom. Secrets are masked by the frontend itself.
import { useQuery } from "@tanstack/react-query";
import type { SettingOut } from "@/api/schema";
import { Answered } from "@/kit/Answered";
import { Checkbox, Search } from "@/kit/fields";
import { Empty, Panel } from "@/kit/Panel";
import { Tag } from "@/kit/status";
import { settings } from "@/pages/settings/calls";
import { isSet, sectionsOf, valueWords, variableOf } from "@/pages/settings/listing";
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
                These are the settings of the frontend <code>{data.answered_by}</code>. They are read at its
                start: change them in its environment or its file, and start it anew.
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
        <code className={setting.is_secret || setting.value === null ? "faint" : undefined}>
          {valueWords(setting)}
        </code>
        {isSet(setting) && (
          <Tag tone="busy" title={setting.source}>
            {setting.source}
          </Tag>
        )}
      </dd>
    </div>
  );
}

const titled = (name: string) => name.charAt(0).toUpperCase() + name.slice(1);
