ALTER TABLE "tidemark"."belief" ADD COLUMN "rests_since" timestamp with time zone;--> statement-breakpoint
ALTER TABLE "tidemark"."belief" ADD COLUMN "rests_from" bigint;--> statement-breakpoint
-- Nobody noted where reading began to rely on the order, so it is taken for the beginning.
update tidemark.belief set rests_from = 0, rests_since = first_at where name = 'sorting' and value = 'proven';
