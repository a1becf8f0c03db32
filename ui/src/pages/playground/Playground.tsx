import { PageHead } from "@/kit/Panel";

export default function Playground() {
  return <PageHead title="Playground" />;
}
