-- Called for what others do to a table of the mirror, or (with its name) to the history of one: Tidemark's own transactions say who they are.
-- It runs with the rights of its owner. So it looks at nothing but tables of the mirror whose owner may write these notes anyway, every name
-- in it says its schema, and `gone` can only be what the trigger itself shows: a table of the caller's with that name is never read.
CREATE OR REPLACE FUNCTION "tidemark"."note_local_change"() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
declare
  is_history constant boolean := tg_nargs > 0;
  about constant pg_catalog.text := case when tg_nargs > 0 then tg_argv[0] else tg_table_name::pg_catalog.text end;
  shows_gone constant boolean := tg_op = 'DELETE' or (tg_nargs > 0 and tg_op = 'UPDATE');
  lost bigint;
  earliest pg_catalog.timestamptz;
  latest pg_catalog.timestamptz;
begin
  if not exists (
    select from pg_catalog.pg_class as mine
    join pg_catalog.pg_trigger as fired on fired.tgrelid = mine.oid and fired.tgname = tg_name
    left join pg_catalog.pg_inherits as part on part.inhrelid = mine.oid
    join pg_catalog.pg_class as whole on whole.oid = coalesce(part.inhparent, mine.oid)
    where mine.oid = tg_relid and whole.relname = about and whole.relnamespace = 'mirror'::pg_catalog.regnamespace
      and pg_catalog.has_table_privilege(mine.relowner, 'tidemark.local_change', 'insert')
      and (fired.tgoldtable is not distinct from 'gone') = shows_gone
      and (is_history or exists (select from tidemark.stream where name = about))
  ) then
    return null;
  end if;
  if is_history and shows_gone then
    select pg_catalog.count(*), pg_catalog.min(_observed_at), pg_catalog.max(_observed_at) into lost, earliest, latest from gone;
  elsif is_history and tg_op = 'TRUNCATE' then
    execute pg_catalog.format(
      'select pg_catalog.count(*), pg_catalog.min(_observed_at), pg_catalog.max(_observed_at) from %I.%I', tg_table_schema, tg_table_name
    ) into lost, earliest, latest;
  elsif shows_gone then
    select pg_catalog.count(*) into lost from gone;
  end if;
  if lost = 0 and (is_history or tg_op = 'DELETE') then
    return null;
  end if;
  insert into tidemark.local_change as known (stream, operation, rows, role, application, transaction, lost_from, lost_through)
  values (
    about, pg_catalog.lower(tg_op), lost, session_user, pg_catalog.current_setting('application_name', true),
    pg_catalog.pg_current_xact_id()::pg_catalog.text::bigint, earliest, latest
  )
  -- A transaction of many statements is one line.
  on conflict (stream, operation, transaction) where run_id is null
    do update set rows = case when is_history then known.rows + excluded.rows end,
      lost_from = least(known.lost_from, excluded.lost_from), lost_through = greatest(known.lost_through, excluded.lost_through)
    where known.rows is not null;
  return null;
end
$$;--> statement-breakpoint
REVOKE ALL ON FUNCTION "tidemark"."note_local_change"() FROM PUBLIC;
