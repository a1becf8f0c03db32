// Where backends and models come from: how fresh each list is, and what is wrong with one that could not be fetched.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { GalleryOut } from "@/api/schema";
import { Ago } from "@/kit/Ago";
import { Answered } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Icon } from "@/kit/icons";
import { Empty, Panel } from "@/kit/Panel";
import { Pill } from "@/kit/status";
import { Trouble } from "@/kit/Trouble";
import { pollWhenLost } from "@/live/connection";
import { galleries, refresh, SHELVES, type Shelf } from "@/pages/settings/calls";
import { galleryState } from "@/pages/settings/listing";
import { plural } from "@/text/format";

/** A refresh answers before it is done, and only a list that changed is an event: for so long it is looked at. */
const LOOK_MS = 20_000;
const LOOK_EVERY_MS = 1500;

export function Galleries() {
  return (
    <div className="stack">
      {SHELVES.map((shelf) => (
        <ShelfPanel key={shelf} shelf={shelf} />
      ))}
    </div>
  );
}

function ShelfPanel({ shelf }: { shelf: Shelf }) {
  const queries = useQueryClient();
  const [isLooking, setLooking] = useState(false);
  const asked = useQuery({
    ...galleries(shelf),
    refetchInterval: isLooking ? LOOK_EVERY_MS : pollWhenLost,
  });
  const fetched = useMutation({
    mutationFn: () => refresh(shelf),
    onSuccess: (told) => {
      queries.setQueryData(galleries(shelf).queryKey, told.galleries);
      setLooking(true);
    },
  });
  useEffect(() => {
    if (!isLooking) return;
    const timer = window.setTimeout(() => setLooking(false), LOOK_MS);
    return () => window.clearTimeout(timer);
  }, [isLooking]);
  return (
    <Panel
      title={`Galleries of ${shelf}`}
      actions={
        <Button
          small
          icon="again"
          busy={fetched.isPending}
          aria-label={`Fetch anew: galleries of ${shelf}`}
          onClick={() => fetched.mutate()}
        >
          Fetch anew
        </Button>
      }
    >
      <Trouble error={fetched.error} />
      {fetched.data && isLooking && (
        <p className="small soft" role="status">
          {fetched.data.message}
        </p>
      )}
      <Answered query={asked}>
        {(all) =>
          all.length === 0 ? (
            <Empty title="There is no gallery.">
              Name one in the configuration, <code>{shelf === "models" ? "model" : "backend"}_galleries</code>
              .
            </Empty>
          ) : (
            <ul className="plain settings-list">
              {all.map((gallery) => (
                <Gallery key={`${gallery.name} ${gallery.url}`} gallery={gallery} />
              ))}
            </ul>
          )
        }
      </Answered>
    </Panel>
  );
}

function Gallery({ gallery }: { gallery: GalleryOut }) {
  const { tone, words } = galleryState(gallery);
  return (
    <li className="settings-row">
      <div>
        <strong>{gallery.name}</strong>
        {gallery.url && <p className="small faint settings-id">{gallery.url}</p>}
      </div>
      <div>
        <Pill tone={tone}>{words}</Pill>
      </div>
      <span className="number">{plural(gallery.entries ?? 0, "entry", "entries")}</span>
      <div className="small soft">
        {gallery.url ? (
          <>
            fetched <Ago at={gallery.fetched_at} />
          </>
        ) : (
          "comes with Corral"
        )}
      </div>
      {gallery.problem && (
        <p className="settings-problem small bad-text">
          <Icon name="warn" /> {gallery.problem}
        </p>
      )}
    </li>
  );
}
