// The door: shows the page to whoever is logged in, and asks everybody else for a key or a password.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, type ReactNode, useEffect, useState } from "react";
import { answer, api, asProblem } from "@/api/client";
import { me } from "@/api/queries";
import { Waiting } from "@/kit/Answered";
import { Button } from "@/kit/Button";
import { Segments, TextField } from "@/kit/fields";
import { Trouble } from "@/kit/Trouble";
import { Mark } from "@/shell/Mark";
import { MeContext } from "@/shell/me";

export function Door({ children }: { children: ReactNode }) {
  const link = useLinkKey();
  const asked = useQuery({ ...me, enabled: !link.isBusy });
  if (link.isBusy || asked.isPending) return <Waiting />;
  // While nobody answers, who was here stays here: the shell says that the connection is lost.
  if (asked.data && !(asked.error && asProblem(asked.error).status === 401)) {
    return <MeContext value={asked.data}>{children}</MeContext>;
  }
  return <Login problem={link.error ?? (asProblem(asked.error).status === 401 ? null : asked.error)} />;
}

/** `#key=…`, as `corral up` and `corral open` print it: taken once, and out of the address before anything else. */
function useLinkKey() {
  const queries = useQueryClient();
  const [key] = useState(() => new URLSearchParams(window.location.hash.slice(1)).get("key"));
  const [isBusy, setBusy] = useState(key !== null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    if (key === null || !window.location.hash.includes("key=")) return;
    window.history.replaceState(window.history.state, "", window.location.pathname + window.location.search);
    comeIn({ key })
      .then((who) => queries.setQueryData(me.queryKey, who))
      .catch(setError)
      .finally(() => setBusy(false));
  }, [key, queries]);
  return { isBusy, error };
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
