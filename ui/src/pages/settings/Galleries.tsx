// The galleries of backends and models: when each was fetched, and the error of one that could not be fetched.
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import type { GalleryOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { Icon } from "@/kit/icons";
import { EmptyState, Panel } from "@/kit/Panel";
import { QueryView } from "@/kit/QueryView";
import { RelativeTime } from "@/kit/RelativeTime";
import { Pill } from "@/kit/status";
import { pollWhenLost } from "@/live/connection";
import { GALLERY_KINDS, type GalleryKind, galleries, refreshGalleries } from "@/pages/settings/calls";
import { galleryState } from "@/pages/settings/settingsLists";
import { plural } from "@/text/format";

/** How long the list is polled after a refresh, which answers before it is done and emits no event without a change. */
const WATCH_REFRESH_MS = 20_000;
const POLL_REFRESH_MS = 1500;

export function Galleries() {
  return (
    <div className="stack">
      {GALLERY_KINDS.map((kind) => (
        <GalleryPanel key={kind} shelf={kind} />
      ))}
    </div>
  );
}

function GalleryPanel({ shelf: kind }: { shelf: GalleryKind }) {
  const queries = useQueryClient();
  const [isLooking, setLooking] = useState(false);
  const query = useQuery({
    ...galleries(kind),
    refetchInterval: isLooking ? POLL_REFRESH_MS : pollWhenLost,
  });
  const fetched = useMutation({
    mutationFn: () => refreshGalleries(kind),
    onSuccess: (refreshed) => {
      queries.setQueryData(galleries(kind).queryKey, refreshed.galleries);
      setLooking(true);
    },
  });
  useEffect(() => {
    if (!isLooking) return;
    const timer = window.setTimeout(() => setLooking(false), WATCH_REFRESH_MS);
    return () => window.clearTimeout(timer);
  }, [isLooking]);
  return (
    <Panel
      title={`Galleries of ${kind}`}
      actions={
        <Button
          small
          icon="again"
          busy={fetched.isPending}
          aria-label={`Refresh: galleries of ${kind}`}
          onClick={() => fetched.mutate()}
        >
          Refresh
        </Button>
      }
    >
      <ErrorNotice error={fetched.error} />
      {fetched.data && isLooking && (
        <p className="small soft" role="status">
          {fetched.data.message}
        </p>
      )}
      <QueryView query={query}>
        {(all) =>
          all.length === 0 ? (
            <EmptyState title="No galleries.">
              Configure one with <code>{kind === "models" ? "model" : "backend"}_galleries</code>.
            </EmptyState>
          ) : (
            <ul className="plain settings-list">
              {all.map((gallery) => (
                <Gallery key={`${gallery.name} ${gallery.url}`} gallery={gallery} />
              ))}
            </ul>
          )
        }
      </QueryView>
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
            fetched <RelativeTime at={gallery.fetched_at} />
          </>
        ) : (
          "built in"
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
