import { PageHead } from "@/kit/Panel";

export default function ModelPage() {
  return <PageHead title="ModelPage" />;
}
