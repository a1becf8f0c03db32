// A chart that is fetched when it is first shown.
import { lazy, Suspense } from "react";
import { Waiting } from "@/kit/Answered";
import type { ChartProps } from "@/kit/chart/Chart";

const Loaded = lazy(() => import("@/kit/chart/Chart"));

export function Chart(props: ChartProps) {
  return (
    <Suspense fallback={<Waiting lines={4} />}>
      <Loaded {...props} />
    </Suspense>
  );
}
