import { PageHead } from "@/kit/Panel";

export default function Overview() {
  return <PageHead title="Overview" />;
}
