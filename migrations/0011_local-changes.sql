CREATE TABLE "tidemark"."local_change" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."local_change_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"stream" text NOT NULL,
	"operation" text NOT NULL,
	"rows" bigint,
	"role" text,
	"application" text,
	"noted_at" timestamp with time zone DEFAULT now() NOT NULL,
	"transaction" bigint NOT NULL,
	"run_id" bigint
);
--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "table_oid" bigint;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "state_oid" bigint;--> statement-breakpoint
CREATE UNIQUE INDEX "local_change_open" ON "tidemark"."local_change" USING btree ("stream","operation","transaction") WHERE run_id is null;--> statement-breakpoint
CREATE INDEX "local_change_by_time" ON "tidemark"."local_change" USING btree ("stream","noted_at");--> statement-breakpoint
-- Called for what others do to a table of the mirror: Tidemark's own transactions say who they are.
CREATE FUNCTION "tidemark"."note_local_change"() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
declare
  lost bigint;
begin
  if tg_table_schema <> 'mirror' or not exists (select from tidemark.stream where name = tg_table_name) then
    return null;
  end if;
  if tg_op = 'DELETE' then
    select count(*) into lost from gone;
    if lost = 0 then
      return null;
    end if;
  end if;
  insert into tidemark.local_change as known (stream, operation, rows, role, application, transaction)
  values (
    tg_table_name, lower(tg_op), lost, session_user, current_setting('application_name', true),
    pg_current_xact_id()::text::bigint
  )
  -- A transaction of many statements is one line.
  on conflict (stream, operation, transaction) where run_id is null
    do update set rows = null where known.rows is not null;
  return null;
end
$$;
