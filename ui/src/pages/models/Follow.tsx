// Follows one operation by its id until it ends, however long that takes.
import { useQuery } from "@tanstack/react-query";
import { operation } from "@/api/queries";
import { Answered } from "@/kit/Answered";
import { UnderWay } from "@/pages/models/UnderWay";

export function Follow({ id }: { id: string }) {
  const found = useQuery(operation(id));
  return <Answered query={found}>{(one) => <UnderWay operation={one} />}</Answered>;
}
