ALTER TABLE "tidemark"."belief" ADD COLUMN "version_field" text;--> statement-breakpoint
ALTER TABLE "tidemark"."belief" ADD COLUMN "rule" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
-- What was seen since the field of the row version is known was seen of that field. Version 0.1 noted no such field: what it saw is tested again.
update tidemark.belief as known set rule = 1, version_field = case when known.name <> 'version_field' then field.value end
from tidemark.belief as field
where field.stream = known.stream and field.name = 'version_field' and known.tested_at >= coalesce(field.changed_at, field.first_at);
