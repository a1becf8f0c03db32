import { PageHead } from "@/kit/Panel";

export default function Operations() {
  return <PageHead title="Operations" />;
}
