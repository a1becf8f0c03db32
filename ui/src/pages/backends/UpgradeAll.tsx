// Upgrades all backends that have an upgrade: one operation for each backend, followed together.
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { BackendUpgradeOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { upgradeAll } from "@/pages/backends/calls";
import { OperationFollower } from "@/pages/backends/OperationFollower";
import { upgradeSteps } from "@/pages/backends/versions";
import { joinWords, plural } from "@/text/format";

interface UpgradeAllProps {
  upgrades: Readonly<Record<string, BackendUpgradeOut>>;
  onClose: () => void;
}

export function UpgradeAll({ upgrades, onClose }: UpgradeAllProps) {
  const [followed, setFollowed] = useState<string[]>([]);
  const begin = useMutation({
    mutationFn: upgradeAll,
    onSuccess: (done) => setFollowed(done.operations.map((one) => one.id)),
  });
  // The upgrades at the time the dialog was opened: the live list shrinks while they are carried out.
  const [found] = useState(() => Object.values(upgrades));
  const replace = (place: number) => (id: string) =>
    setFollowed((ids) => ids.map((was, at) => (at === place ? id : was)));
  return (
    <Dialog
      title="Upgrade all"
      wide
      onClose={onClose}
      actions={
        begin.data ? (
          <Button onClick={onClose}>Close</Button>
        ) : (
          <>
            <Button onClick={onClose}>Cancel</Button>
            <Button kind="primary" busy={begin.isPending} onClick={() => begin.mutate()}>
              Upgrade {plural(found.length, "backend")}
            </Button>
          </>
        )
      }
    >
      {!begin.data && (
        <table>
          <thead>
            <tr>
              <th>Backend</th>
              <th>What changes</th>
              <th>Latest</th>
            </tr>
          </thead>
          <tbody>
            {found.map((one) => (
              <tr key={one.backend_name}>
                <td>{one.backend_name}</td>
                <td>
                  <Steps found={one} />
                </td>
                <td className="number">{one.available_version || "–"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {begin.data?.refused?.map((one) => (
        <p key={one.backend} className="bad-text">
          {one.backend}: {one.message}
        </p>
      ))}
      {begin.data && followed.length === 0 && <p>Everything is up to date.</p>}
      {followed.map((id, place) => (
        <OperationFollower
          key={begin.data?.operations[place]?.id ?? id}
          id={id}
          onNext={replace(place)}
          hasTitle
        />
      ))}
      <ErrorNotice error={begin.error} />
    </Dialog>
  );
}

function Steps({ found }: { found: BackendUpgradeOut }) {
  const steps = upgradeSteps(found);
  if (steps.length === 0) return <span className="soft">{found.summary}</span>;
  return (
    <ul className="plain">
      {steps.map((step) => (
        <li key={step.from}>
          <span className="number">
            {step.from || "older"} → {step.to || "newer image"}
          </span>{" "}
          on {joinWords(step.nodes)}
        </li>
      ))}
    </ul>
  );
}
