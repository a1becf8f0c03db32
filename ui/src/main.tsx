import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Problem } from "@/api/client";
import { me } from "@/api/queries";
import { ToastProvider } from "@/kit/toasts";
import { pollWhenLost } from "@/live/connection";
import { router } from "@/router";
import { SignInGate } from "@/shell/SignInGate";
import { applyTheme } from "@/shell/theme";
import "@fontsource-variable/instrument-sans/wght.css";
import "@fontsource-variable/bricolage-grotesque/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "@/style/tokens.css";
import "@/style/base.css";
import "@/style/kit.css";
import "@/style/shell.css";

applyTheme();
const queries: QueryClient = new QueryClient({
  queryCache: new QueryCache({
    // After a 401 the caller is queried again: if the session has ended, the sign-in form is shown.
    onError: (error, query) => {
      const isRefused = error instanceof Problem && error.status === 401;
      if (isRefused && query.queryKey[0] !== "me") void queries.invalidateQueries({ queryKey: ["me"] });
    },
  }),
  defaultOptions: {
    queries: {
      // The stream invalidates stale queries, so a refetch on focus is not needed.
      staleTime: Number.POSITIVE_INFINITY,
      refetchOnWindowFocus: false,
      refetchInterval: pollWhenLost,
      retry: (count, error) => error instanceof Problem && error.isLost && count < 3,
    },
  },
});
// The caller and the script of the requested page are fetched in parallel, before the first render.
void queries.prefetchQuery(me);
void router.load();
const element = document.getElementById("page");
if (element) {
  createRoot(element).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <ToastProvider>
          <SignInGate>
            <RouterProvider router={router} />
          </SignInGate>
        </ToastProvider>
      </QueryClientProvider>
    </StrictMode>,
  );
}
