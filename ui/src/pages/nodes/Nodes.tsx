import { PageHead } from "@/kit/Panel";

export default function Nodes() {
  return <PageHead title="Nodes" />;
}
