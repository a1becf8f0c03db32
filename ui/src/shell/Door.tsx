// The door: shows the page to whoever is logged in, and asks everybody else for a key or a password.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { answer, api, asProblem } from "@/api/client";
import { me } from "@/api/queries";
import type { MeOut } from "@/api/schema";
import { Waiting } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Confirm } from "@/kit/Confirm";
import { Dialog } from "@/kit/Dialog";
import { Segments, TextField } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { useLinkKey } from "@/shell/loginLink";
import { Mark } from "@/shell/Mark";
import { MeContext } from "@/shell/me";

export function Door({ children }: { children: ReactNode }) {
  const [key, forget] = useLinkKey();
  const asked = useQuery(me);
  // Of the link, which is gone from the address by then.
  const [error, setError] = useState<unknown>(null);
  if (asked.isPending) return <Waiting />;
  // While nobody answers, who was here stays here: the shell says that the connection is lost.
  if (asked.data && !(asked.error && asProblem(asked.error).status === 401)) {
    return (
      <MeContext value={asked.data}>
        {children}
        {key !== null && <LinkQuestion key={key} linkKey={key} present={asked.data} onClose={forget} />}
      </MeContext>
    );
  }
  if (key !== null) return <LinkLogin key={key} linkKey={key} onEnd={forget} onError={setError} />;
  return <Login problem={error ?? (asProblem(asked.error).status === 401 ? null : asked.error)} />;
}

/** Nobody is signed in: the link signs in by itself. */
function LinkLogin(props: { linkKey: string; onEnd: () => void; onError: (error: unknown) => void }) {
  const queries = useQueryClient();
  const { linkKey, onEnd, onError } = props;
  const isBegun = useRef(false);
  useEffect(() => {
    // Once, also where effects are run twice to find mistakes.
    if (isBegun.current) return;
    isBegun.current = true;
    comeIn({ key: linkKey })
      .then((who) => queries.setQueryData(me.queryKey, who))
      .catch(onError)
      .finally(onEnd);
  }, [linkKey, onEnd, onError, queries]);
  return <Waiting />;
}

/** Somebody is signed in: a link that anybody may have sent does not replace their session without a word. */
function LinkQuestion(props: { linkKey: string; present: MeOut; onClose: () => void }) {
  const { linkKey, present, onClose } = props;
  const queries = useQueryClient();
  const holder = useQuery({
    queryKey: ["me", "of link", linkKey],
    // A key that is sent goes before the cookie, and opens no session.
    queryFn: () => answer(api.GET("/api/me", { headers: { Authorization: `Bearer ${linkKey}` } })),
    retry: false,
    gcTime: 0,
  });
  const isSame = holder.data?.key_id != null && holder.data.key_id === present.key_id;
  useEffect(() => {
    if (isSame) onClose();
  }, [isSame, onClose]);
  if (holder.isPending || isSame) return null;
  if (holder.error) {
    return (
      <Dialog
        title="This login link does not work"
        onClose={onClose}
        actions={<Button onClick={onClose}>Close</Button>}
      >
        <p>You are still signed in as {present.name}.</p>
        <Trouble error={holder.error} />
      </Dialog>
    );
  }
  const name = holder.data.name;
  return (
    <Confirm
      title={`Sign in as ${name}?`}
      verb={`Sign in as ${name}`}
      danger={false}
      onConfirm={async () => {
        const who = await comeIn({ key: linkKey });
        queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "me" });
        queries.setQueryData(me.queryKey, who);
      }}
      onClose={onClose}
    >
      <p>
        You opened a login link of <strong>{name}</strong> (scope {holder.data.scope}). You are signed in as{" "}
        <strong>{present.name}</strong>.
      </p>
    </Confirm>
  );
}

function comeIn(body: { key: string } | { name: string; password: string }) {
  return answer(api.POST("/api/session", { body: body as never }));
}

type Way = "key" | "password";

function Login({ problem }: { problem: unknown }) {
  const queries = useQueryClient();
  const ways = useQuery({ queryKey: ["me", "ways"], queryFn: () => answer(api.GET("/api/session/ways")) });
  const [way, setWay] = useState<Way>("key");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(problem);
  useEffect(() => {
    document.title = "Sign in · Corral";
  }, []);

  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    setBusy(true);
    setError(null);
    try {
      const who = await comeIn(
        way === "key"
          ? { key: String(form.get("key")).trim() }
          : { name: String(form.get("name")).trim(), password: String(form.get("password")) },
      );
      // What somebody else has seen here is forgotten; the question who is here stays, for it is being watched.
      queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "me" });
      queries.setQueryData(me.queryKey, who);
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return (
    <main className="door">
      <form className="panel stack" onSubmit={(event) => void submit(event)}>
        <div className="row">
          <Mark size={36} />
          <h1>Corral</h1>
        </div>
        <Segments
          label="How to come in"
          value={way}
          options={[
            { value: "key", label: "With a key" },
            { value: "password", label: "With a password" },
          ]}
          onChange={setWay}
        />
        {way === "key" ? (
          <TextField
            label="API key"
            name="key"
            type="password"
            required
            autoFocus
            placeholder="ck_…"
            hint={
              <>
                On the machine that runs Corral, <code>corral open</code> prints a link that needs none.
              </>
            }
          />
        ) : (
          <>
            <TextField label="Name" name="name" required autoComplete="username" autoFocus />
            <TextField
              label="Password"
              name="password"
              type="password"
              required
              autoComplete="current-password"
            />
          </>
        )}
        <Trouble error={error} />
        <Button kind="primary" type="submit" busy={isBusy}>
          Come in
        </Button>
        {ways.data?.provider && (
          <p className="small">
            or <a href="/api/session/oidc">come in by {ways.data.provider}</a>
          </p>
        )}
      </form>
    </main>
  );
}
