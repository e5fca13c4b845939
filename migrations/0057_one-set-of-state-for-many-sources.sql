CREATE TABLE "tidemark"."source_config" (
	"name" text PRIMARY KEY NOT NULL,
	"settings" jsonb NOT NULL,
	"tags" text[] NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"generation" bigint NOT NULL,
	"changed_at" timestamp with time zone DEFAULT now() NOT NULL,
	"changed_by" text NOT NULL,
	"gone_at" timestamp with time zone
);--> statement-breakpoint
ALTER TABLE "tidemark"."related_fetch" ADD COLUMN "source" text DEFAULT '' NOT NULL;--> statement-breakpoint
-- Two sources may have assignments of one number. No row is written anew: only the index of the key is.
ALTER TABLE "tidemark"."related_fetch" DROP CONSTRAINT "related_fetch_pkey", ADD CONSTRAINT "related_fetch_source_assignment_id_pk" PRIMARY KEY("source","assignment_id");--> statement-breakpoint
ALTER TABLE "tidemark"."source" ADD COLUMN "name" text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE "tidemark"."source" DROP CONSTRAINT "source_pkey", ADD CONSTRAINT "source_name_service_pk" PRIMARY KEY("name","service");--> statement-breakpoint
CREATE OR REPLACE VIEW "tidemark"."freshness" AS (select name as stream, nullif(position, 0) as read_through_version, read_through_at as read_through_time, last_success_at, last_reconcile_at, settled_through_version, settled_through_at as settled_through_time, deletions_known_at as deletions_known_through,
  case when paused_at is not null then 'paused' when seen.state <> 'paused' and (seen.state <> 'loading' or read_through_at is null) then seen.state when read_through_at is null then (select 'loading' from tidemark.progress where progress.stream = name and reading = 'first load') when read_through_at > now() - interval '1 hour' then 'live' else 'behind' end as state,
  case when read_through_at is not null then 1::real else (select share from tidemark.progress where progress.stream = name and reading = 'first load' and not is_complete) end as loaded_share,
  case when paused_at is not null then pause_reason when seen.state <> 'loading' or read_through_at is null and seen.stream is not null then seen.reason when read_through_at is null then null when read_through_at <= now() - interval '1 hour' then 'No worker is running.' when blocked_deletions ? 'rejected' then 'Deletions are frozen: somebody kept the rows that the list lacks.' when blocked_deletions is not null then 'Deletions wait for a decision.' end as reason,
  history_from,
  left(name, greatest(0, strpos(name, '.') - 1)) as source, substr(name, strpos(name, '.') + 1) as base
  from tidemark.stream left join tidemark.standing as seen on seen.stream = name and seen.seen_at > now() - interval '5 minutes');--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."source" IS 'the source; empty: the one that the environment describes';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."base" IS 'the name of the stream within its source';--> statement-breakpoint
-- Called for what others do to a table of the mirror, or (with its name) to the history of one: Tidemark's own transactions say who they are.
-- It runs with the rights of its owner. So it looks at nothing but tables of the mirror whose owner may write these notes anyway, every name
-- in it says its schema, and `gone` can only be what the trigger itself shows: a table of the caller's with that name is never read.
CREATE OR REPLACE FUNCTION "tidemark"."note_local_change"() RETURNS trigger
  LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
declare
  is_history constant boolean := tg_nargs > 0;
  about constant pg_catalog.text := case when tg_nargs > 0 then tg_argv[0]
    when tg_table_schema = 'mirror' then tg_table_name::pg_catalog.text
    else pg_catalog.left(tg_table_schema, -7) || '.' || tg_table_name end;
  shows_gone constant boolean := tg_op = 'DELETE' or (tg_nargs > 0 and tg_op = 'UPDATE');
  lost bigint;
  earliest pg_catalog.timestamptz;
  latest pg_catalog.timestamptz;
  key_column pg_catalog.name;
begin
  if not exists (
    select from pg_catalog.pg_class as mine
    join pg_catalog.pg_trigger as fired on fired.tgrelid = mine.oid and fired.tgname = tg_name
    left join pg_catalog.pg_inherits as part on part.inhrelid = mine.oid
    join pg_catalog.pg_class as whole on whole.oid = coalesce(part.inhparent, mine.oid)
    join pg_catalog.pg_namespace as place on place.oid = whole.relnamespace
    where mine.oid = tg_relid and about = case when place.nspname = 'mirror' then whole.relname::pg_catalog.text
        when place.nspname like '%\_mirror' then pg_catalog.left(place.nspname, -7) || '.' || whole.relname end
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
  if tg_op = 'DELETE' and not is_history then
    select attname into key_column from pg_catalog.pg_index
    join pg_catalog.pg_attribute on attrelid = indrelid and attnum = indkey[0]
    where indrelid = tg_relid and indisprimary;
    if key_column is not null then
      -- One more than are doubted singly: of more rows, all of the stream are.
      execute pg_catalog.format(
        'insert into tidemark.doubt (stream, key, why) select $1, gone.%I::pg_catalog.text, $2 from gone limit 1001 on conflict do nothing',
        key_column
      ) using about, 'somebody deleted it in Postgres, and it is read again'::pg_catalog.text;
    end if;
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
-- Why not everything that happened up to a moment is final; null: it is. It runs with the rights of its owner, for those who may read
-- nothing but freshness. A list has no row versions: it is read whole each time. No run of such a stream is incremental.
CREATE OR REPLACE FUNCTION "tidemark"."not_final_because"(stream text, moment timestamptz) RETURNS text
  LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = '' AS $$
declare
  known tidemark.stream;
  is_list boolean;
  settled timestamptz;
  deletions timestamptz;
  doubts bigint;
  reasons text[] := '{}';
begin
  select * into known from tidemark.stream as one where one.name = not_final_because.stream;
  if not found then
    raise exception 'There is no stream %.', stream using errcode = 'undefined_object',
      hint = 'There are: ' || coalesce((select pg_catalog.string_agg(one.name, ', ' order by one.name) from tidemark.stream as one), 'none');
  end if;
  if moment is null then
    return 'no moment was given';
  end if;
  is_list := known.position = 0 and known.settled_through_at is null
    and not exists (select from tidemark.lease where lease.stream = known.name and lane = 'incremental')
    and not exists (select from tidemark.checkpoint where checkpoint.stream = known.name);
  settled := case when is_list then known.read_through_at else known.settled_through_at end;
  deletions := known.deletions_known_at;
  -- A time that is still to come is that of a clock which was put back since.
  if settled is null or settled > pg_catalog.now() then
    reasons := reasons || 'nothing is settled yet'::text;
  elsif settled < moment then
    reasons := reasons || pg_catalog.format('changes are settled only through %s', settled);
  end if;
  if deletions is null or deletions > pg_catalog.now() then
    reasons := reasons || 'it is not known yet which records were deleted'::text;
  elsif deletions < moment then
    reasons := reasons || pg_catalog.format('deletions are known only through %s', deletions);
  end if;
  select pg_catalog.count(*) into doubts from tidemark.in_doubt as one where one.stream = known.name;
  if doubts > 0 then
    reasons := reasons || pg_catalog.format('rows are in doubt (%s in tidemark.in_doubt)', doubts);
  end if;
  if known.table_oid is distinct from (
    select one.oid::bigint from pg_catalog.pg_class as one
    join pg_catalog.pg_namespace as place on place.oid = one.relnamespace
    where one.relkind in ('r', 'p') and known.name = case when place.nspname = 'mirror' then one.relname::text
      when place.nspname like '%\_mirror' then pg_catalog.left(place.nspname, -7) || '.' || one.relname end
      and one.relname = pg_catalog.substr(known.name, pg_catalog.strpos(known.name, '.') + 1)
  ) then
    reasons := reasons || 'somebody dropped or replaced its table, and no run has looked at it yet'::text;
  end if;
  return nullif(pg_catalog.array_to_string(reasons, '; '), '');
end
$$;