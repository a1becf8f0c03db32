// A chart that is fetched when it is first shown.
import { lazy, Suspense } from "react";
import type { ChartProps } from "@/kit/chart/Chart";
import { LoadingLines } from "@/kit/QueryView";

const LazyChart = lazy(() => import("@/kit/chart/Chart"));

export function Chart(props: ChartProps) {
  return (
    <Suspense fallback={<LoadingLines lines={4} />}>
      <LazyChart {...props} />
    </Suspense>
  );
}
