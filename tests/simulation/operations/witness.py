"""Triggers that write down every change of operations, targets and assignments: who, when, before and after.

Only the simulator's database has them. What the product shows through its own API may hide a step; this does not.
"""

from __future__ import annotations

# `usable`: whether the node of a target was one that may be told anything at that very moment; null if it is gone.
# `drained`: whether an admin had drained that node at that very moment.
WITNESS_OF_OPERATIONS = """
    CREATE TABLE operation_witness (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        what text NOT NULL, participant text, at timestamptz NOT NULL, old jsonb, new jsonb, usable boolean,
        drained boolean
    );
    CREATE FUNCTION witness_operation() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        before jsonb; after jsonb; fit boolean; out boolean;
    BEGIN
        IF TG_OP <> 'INSERT' THEN before := to_jsonb(OLD) - '{build,request,file_name}'::text[]; END IF;
        IF TG_OP <> 'DELETE' THEN after := to_jsonb(NEW) - '{request,file_name}'::text[]; END IF;
        IF TG_TABLE_NAME = 'operation_targets' AND TG_OP <> 'DELETE' THEN
            SELECT n.approved_at IS NOT NULL AND n.node_type = 'backend', n.drained_at IS NOT NULL INTO fit, out
              FROM nodes n WHERE n.id = NEW.node;
        END IF;
        INSERT INTO operation_witness (what, participant, at, old, new, usable, drained)
        VALUES (TG_TABLE_NAME, current_setting('corral.participant', true), corral_now(), before, after, fit, out);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_operations AFTER INSERT OR UPDATE ON operations
        FOR EACH ROW EXECUTE FUNCTION witness_operation();
    CREATE TRIGGER witness_targets AFTER INSERT OR UPDATE ON operation_targets
        FOR EACH ROW EXECUTE FUNCTION witness_operation();
    CREATE TRIGGER witness_assignments AFTER INSERT OR UPDATE OR DELETE ON assignments
        FOR EACH ROW EXECUTE FUNCTION witness_operation();
"""
