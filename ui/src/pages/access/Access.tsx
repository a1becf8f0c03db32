import { PageHead } from "@/kit/Panel";

export default function Access() {
  return <PageHead title="Access" />;
}
