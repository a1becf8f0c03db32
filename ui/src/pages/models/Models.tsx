import { PageHead } from "@/kit/Panel";

export default function Models() {
  return <PageHead title="Models" />;
}
