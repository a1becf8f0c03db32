import { PageHead } from "@/kit/Panel";

export default function Settings() {
  return <PageHead title="Settings" />;
}
