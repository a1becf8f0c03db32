import { PageHead } from "@/kit/Panel";

export default function Backends() {
  return <PageHead title="Backends" />;
}
