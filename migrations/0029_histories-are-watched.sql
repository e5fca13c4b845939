ALTER TABLE "tidemark"."local_change" ADD COLUMN "lost_from" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."local_change" ADD COLUMN "lost_through" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "history_watch" jsonb;--> statement-breakpoint
-- Called for what others do to a table of the mirror, or (with its name) to the history of one: Tidemark's own transactions say who they are.
CREATE OR REPLACE FUNCTION "tidemark"."note_local_change"() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
declare
  is_history constant boolean := tg_nargs > 0;
  about constant text := case when tg_nargs > 0 then tg_argv[0] else tg_table_name::text end;
  lost bigint;
  earliest timestamptz;
  latest timestamptz;
begin
  if not is_history and (tg_table_schema <> 'mirror' or not exists (select from tidemark.stream where name = tg_table_name)) then
    return null;
  end if;
  if is_history and tg_op in ('UPDATE', 'DELETE') then
    select count(*), min(_observed_at), max(_observed_at) into lost, earliest, latest from gone;
  elsif is_history and tg_op = 'TRUNCATE' then
    execute format('select count(*), min(_observed_at), max(_observed_at) from %I.%I', tg_table_schema, tg_table_name)
      into lost, earliest, latest;
  elsif tg_op = 'DELETE' then
    select count(*) into lost from gone;
  end if;
  if lost = 0 and (is_history or tg_op = 'DELETE') then
    return null;
  end if;
  insert into tidemark.local_change as known (stream, operation, rows, role, application, transaction, lost_from, lost_through)
  values (
    about, lower(tg_op), lost, session_user, current_setting('application_name', true),
    pg_current_xact_id()::text::bigint, earliest, latest
  )
  -- A transaction of many statements is one line.
  on conflict (stream, operation, transaction) where run_id is null
    do update set rows = case when is_history then known.rows + excluded.rows end,
      lost_from = least(known.lost_from, excluded.lost_from), lost_through = greatest(known.lost_through, excluded.lost_through)
    where known.rows is not null;
  return null;
end
$$;
