// Shows the page to a signed-in user, and the sign-in form to everybody else.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from "react";
import { api, asProblem, unwrapResponse } from "@/api/client";
import { me } from "@/api/queries";
import type { CallerOut } from "@/api/schema";
import { Button } from "@/kit/Button";
import { ConfirmDialog } from "@/kit/ConfirmDialog";
import { Dialog } from "@/kit/Dialog";
import { ErrorNotice } from "@/kit/ErrorNotice";
import { SegmentedControl, TextField } from "@/kit/fields";
import { LoadingLines } from "@/kit/QueryView";
import { Logo } from "@/shell/Logo";
import { useLinkKey } from "@/shell/loginLink";
import { MeContext } from "@/shell/me";

export function SignInGate({ children }: { children: ReactNode }) {
  const [key, forget] = useLinkKey();
  const caller = useQuery(me);
  // The error of a login link, whose key has been removed from the address by then.
  const [error, setError] = useState<unknown>(null);
  if (caller.isPending) return <LoadingLines />;
  // While no frontend answers, the user stays signed in: the shell says that the connection is lost.
  if (caller.data && !(caller.error && asProblem(caller.error).status === 401)) {
    return (
      <MeContext value={caller.data}>
        {children}
        {key !== null && <LinkQuestion key={key} linkKey={key} present={caller.data} onClose={forget} />}
      </MeContext>
    );
  }
  if (key !== null) return <LinkLogin key={key} linkKey={key} onEnd={forget} onError={setError} />;
  return <Login problem={error ?? (asProblem(caller.error).status === 401 ? null : caller.error)} />;
}

/** Signs in with the key of a login link, if no user is signed in. */
function LinkLogin(props: { linkKey: string; onEnd: () => void; onError: (error: unknown) => void }) {
  const queries = useQueryClient();
  const { linkKey, onEnd, onError } = props;
  const isBegun = useRef(false);
  useEffect(() => {
    // React runs effects twice in development; the link signs in once.
    if (isBegun.current) return;
    isBegun.current = true;
    signIn({ key: linkKey })
      .then((who) => queries.setQueryData(me.queryKey, who))
      .catch(onError)
      .finally(onEnd);
  }, [linkKey, onEnd, onError, queries]);
  return <LoadingLines />;
}

/** Confirms before a login link replaces the session of a signed-in user: the link may come from a stranger. */
function LinkQuestion(props: { linkKey: string; present: CallerOut; onClose: () => void }) {
  const { linkKey, present, onClose } = props;
  const queries = useQueryClient();
  const holder = useQuery({
    queryKey: ["me", "of link", linkKey],
    // A key in the request wins over the cookie, and opens no session.
    queryFn: () => unwrapResponse(api.GET("/api/me", { headers: { Authorization: `Bearer ${linkKey}` } })),
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
        <ErrorNotice error={holder.error} />
      </Dialog>
    );
  }
  const name = holder.data.name;
  return (
    <ConfirmDialog
      title={`Sign in as ${name}?`}
      verb={`Sign in as ${name}`}
      danger={false}
      onConfirm={async () => {
        const who = await signIn({ key: linkKey });
        queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "me" });
        queries.setQueryData(me.queryKey, who);
      }}
      onClose={onClose}
    >
      <p>
        You opened a login link of <strong>{name}</strong> (scope {holder.data.scope}). You are signed in as{" "}
        <strong>{present.name}</strong>.
      </p>
    </ConfirmDialog>
  );
}

function signIn(body: { key: string } | { name: string; password: string }) {
  return unwrapResponse(api.POST("/api/session", { body: body as never }));
}

type SignInMethod = "key" | "password";

function Login({ problem }: { problem: unknown }) {
  const queries = useQueryClient();
  const methods = useQuery({
    queryKey: ["me", "ways"],
    queryFn: () => unwrapResponse(api.GET("/api/session/ways")),
  });
  const [method, setMethod] = useState<SignInMethod>("key");
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
      const who = await signIn(
        method === "key"
          ? { key: String(form.get("key")).trim() }
          : { name: String(form.get("name")).trim(), password: String(form.get("password")) },
      );
      // Data of the user before is removed from the cache. The query `me` stays, because this component observes it.
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
          <Logo size={36} />
          <h1>Corral</h1>
        </div>
        <SegmentedControl
          label="Sign-in method"
          value={method}
          options={[
            { value: "key", label: "API key" },
            { value: "password", label: "Password" },
          ]}
          onChange={setMethod}
        />
        {method === "key" ? (
          <TextField
            label="API key"
            name="key"
            type="password"
            required
            autoFocus
            placeholder="ck_…"
            hint={
              <>
                On the machine that runs Corral, <code>corral open</code> prints a sign-in link.
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
        <ErrorNotice error={error} />
        <Button kind="primary" type="submit" busy={isBusy}>
          Sign in
        </Button>
        {methods.data?.provider && (
          <p className="small">
            or <a href="/api/session/oidc">sign in with {methods.data.provider}</a>
          </p>
        )}
      </form>
    </main>
  );
}
