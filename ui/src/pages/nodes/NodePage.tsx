import { PageHead } from "@/kit/Panel";

export default function NodePage() {
  return <PageHead title="NodePage" />;
}
