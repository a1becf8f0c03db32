// Follows one operation by its id until it ends, however long that takes.
import { useQuery } from "@tanstack/react-query";
import { operation } from "@/api/queries";
import { QueryView } from "@/kit/QueryView";
import { ModelOperation } from "@/pages/models/ModelOperation";

export function ModelOperationFollower({ id }: { id: string }) {
  const found = useQuery(operation(id));
  return <QueryView query={found}>{(one) => <ModelOperation operation={one} />}</QueryView>;
}
