import { PageHead } from "@/kit/Panel";

export default function Usage() {
  return <PageHead title="Usage" />;
}
