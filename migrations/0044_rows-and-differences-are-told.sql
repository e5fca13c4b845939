-- Deleted rows are counted by an index of their own. Without it, as on a table that belongs to another role, they are not counted.
DO $$
declare
  one record;
begin
  for one in
    select mirrored.oid::regclass as name from pg_catalog.pg_class as mirrored
    join tidemark.stream on stream.name = mirrored.relname
    join pg_catalog.pg_attribute as own on own.attrelid = mirrored.oid and own.attname = '_deleted_at' and not own.attisdropped
    where mirrored.relnamespace = 'mirror'::regnamespace and mirrored.relkind = 'r'
      and pg_catalog.pg_has_role(mirrored.relowner, 'USAGE')
  loop
    execute format('create index on %s (_deleted_at) where _deleted_at is not null', one.name);
  end loop;
end
$$;
--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "unexplained" jsonb;
