ALTER TABLE "tidemark"."action" RENAME TO "action_log";--> statement-breakpoint
ALTER TABLE "tidemark"."action_log" ALTER COLUMN "id" DROP IDENTITY;--> statement-breakpoint
ALTER TABLE "tidemark"."action_log" ADD COLUMN "ends" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."action_log" ADD COLUMN "hash" text;--> statement-breakpoint
ALTER TABLE "tidemark"."action_log" ALTER COLUMN "who" DROP NOT NULL, ALTER COLUMN "door" DROP NOT NULL, ALTER COLUMN "address" DROP NOT NULL,
  ALTER COLUMN "action" DROP NOT NULL, ALTER COLUMN "target" DROP NOT NULL;--> statement-breakpoint
CREATE UNIQUE INDEX "action_ends_once" ON "tidemark"."action_log" USING btree ("ends") WHERE ends is not null;--> statement-breakpoint
-- What the hash of a line is made of. jsonb writes the same values in the same way, after a dump and a restore too.
CREATE FUNCTION "tidemark"."action_hash"("line" "tidemark"."action_log", "before" text) RETURNS text
  LANGUAGE sql STABLE SET search_path = '' AS $$
  select pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(before || pg_catalog.jsonb_build_array(
    line.id, extract(epoch from line.at), line.ends, line.who, line.door, line.address, line.action, line.target, line.stream, line.reason,
    line.confirmed, line.before, line.after, line.result, line.told
  )::pg_catalog.text, 'UTF8')), 'hex')
$$;--> statement-breakpoint
DO $$
declare
  line tidemark.action_log;
  last text := '';
begin
  for line in select * from tidemark.action_log order by id loop
    last := tidemark.action_hash(line, last);
    update tidemark.action_log set hash = last where id = line.id;
  end loop;
end
$$;--> statement-breakpoint
ALTER TABLE "tidemark"."action_log" ALTER COLUMN "hash" SET NOT NULL;--> statement-breakpoint
CREATE FUNCTION "tidemark"."chain_action"() RETURNS trigger
  LANGUAGE plpgsql SET search_path = '' AS $$
declare
  last record;
begin
  -- One line after the other, whichever workers write.
  insert into tidemark.turn (name) values ('action log') on conflict do nothing;
  perform from tidemark.turn where name = 'action log' for update;
  select id, hash into last from tidemark.action_log order by id desc limit 1;
  new.id := coalesce(last.id, 0) + 1;
  new.at := pg_catalog.clock_timestamp();
  new.hash := tidemark.action_hash(new, coalesce(last.hash, ''));
  return new;
end
$$;--> statement-breakpoint
CREATE FUNCTION "tidemark"."keep_action"() RETURNS trigger
  LANGUAGE plpgsql SET search_path = '' AS $$
begin
  if tg_op = 'DELETE' and old.at < pg_catalog.now() - interval '2 years' then
    return old;
  end if;
  raise exception 'Lines of tidemark.action_log are not changed, and not removed before they are two years old.' using errcode = '42501';
end
$$;--> statement-breakpoint
CREATE TRIGGER "chained" BEFORE INSERT ON "tidemark"."action_log" FOR EACH ROW EXECUTE FUNCTION "tidemark"."chain_action"();--> statement-breakpoint
CREATE TRIGGER "kept" BEFORE UPDATE OR DELETE ON "tidemark"."action_log" FOR EACH ROW EXECUTE FUNCTION "tidemark"."keep_action"();--> statement-breakpoint
CREATE TRIGGER "kept_whole" BEFORE TRUNCATE ON "tidemark"."action_log" FOR EACH STATEMENT EXECUTE FUNCTION "tidemark"."keep_action"();--> statement-breakpoint
ALTER TABLE "tidemark"."action_log" ENABLE ALWAYS TRIGGER "chained", ENABLE ALWAYS TRIGGER "kept", ENABLE ALWAYS TRIGGER "kept_whole";--> statement-breakpoint
CREATE VIEW "tidemark"."action" AS (select begun.id, begun.at, begun.who, begun.door, begun.address, begun.action, begun.target, begun.stream, begun.reason, begun.confirmed, begun.before,
  coalesce(ended.after, begun.after) as after, coalesce(ended.result, begun.result) as result, coalesce(ended.told, begun.told) as told
  from tidemark.action_log as begun left join tidemark.action_log as ended on ended.ends = begun.id where begun.ends is null);--> statement-breakpoint
CREATE TABLE "tidemark"."role_limit" (
	"role" text NOT NULL,
	"name" text NOT NULL,
	"set_at" timestamp with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "role_limit_role_name_pk" PRIMARY KEY("role","name")
);
