"""Triggers that write down every change of replicas and of what models are: who, when, before and after.

A replica that is placed is written down with what its node has promised in that very transaction. Only the simulator's
database has them.
"""

from __future__ import annotations

# `promised`: what all replicas that stand on the node take, the new one included. `transaction` ties a row that goes
# to the reason that is told of it.
WITNESS_OF_MODELS = """
    CREATE TABLE model_witness (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        what text NOT NULL, participant text, at timestamptz NOT NULL, transaction bigint NOT NULL,
        old jsonb, new jsonb, promised jsonb
    );
    CREATE FUNCTION witness_model() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        before jsonb; after jsonb; promised jsonb;
    BEGIN
        IF TG_OP <> 'INSERT' THEN before := to_jsonb(OLD) - '{config,facts,observed}'::text[]; END IF;
        IF TG_OP <> 'DELETE' THEN after := to_jsonb(NEW) - '{config,facts,observed}'::text[]; END IF;
        IF TG_TABLE_NAME = 'replicas' AND TG_OP = 'INSERT' THEN
            SELECT jsonb_build_object('node', n.name, 'ram', n.total_ram, 'threads', n.cpu_threads,
                       'slots', COALESCE(n.slots_override, n.slots_reported),
                       'drained', n.drained_at IS NOT NULL, 'liveness', n.liveness,
                       'ram_taken', (SELECT sum(r.ram_bytes) FROM replicas r
                                      WHERE r.node_id = n.id AND r.state <> 'unloading'),
                       'threads_taken', (SELECT sum(r.threads) FROM replicas r
                                          WHERE r.node_id = n.id AND r.state <> 'unloading'),
                       'slots_taken', (SELECT count(*) FROM replicas r
                                        WHERE r.node_id = n.id AND r.model = NEW.model AND r.revision = NEW.revision
                                          AND r.state <> 'unloading'),
                       'run_hash', (SELECT m.run_hash FROM models m WHERE m.name = NEW.model))
              INTO promised FROM nodes n WHERE n.id = NEW.node_id;
        END IF;
        INSERT INTO model_witness (what, participant, at, transaction, old, new, promised)
        VALUES (TG_TABLE_NAME, current_setting('corral.participant', true), corral_now(), txid_current(),
                before, after, promised);
        RETURN NULL;
    END $$;
    CREATE TRIGGER witness_replicas AFTER INSERT OR UPDATE OR DELETE ON replicas
        FOR EACH ROW EXECUTE FUNCTION witness_model();
    CREATE TRIGGER witness_models AFTER INSERT OR UPDATE OR DELETE ON models
        FOR EACH ROW EXECUTE FUNCTION witness_model();
    CREATE TRIGGER witness_removals AFTER INSERT ON outbox
        FOR EACH ROW WHEN (NEW.kind = 'replica.removed') EXECUTE FUNCTION witness_model();
"""
