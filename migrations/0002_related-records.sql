CREATE TABLE "tidemark"."related_fetch" (
	"assignment_id" bigint PRIMARY KEY NOT NULL,
	"hash" "bytea" NOT NULL,
	"groups" text[] NOT NULL,
	"fetched_at" timestamp with time zone,
	"problem" text,
	"attempts" integer DEFAULT 0 NOT NULL,
	"retry_at" timestamp with time zone
);
--> statement-breakpoint
CREATE TABLE "tidemark"."related_link" (
	"assignment_id" bigint NOT NULL,
	"stream" text NOT NULL,
	"key" text NOT NULL,
	CONSTRAINT "related_link_assignment_id_stream_key_pk" PRIMARY KEY("assignment_id","stream","key")
);
--> statement-breakpoint
CREATE INDEX "related_fetch_by_age" ON "tidemark"."related_fetch" USING btree ("fetched_at");--> statement-breakpoint
CREATE INDEX "related_fetch_to_retry" ON "tidemark"."related_fetch" USING btree ("retry_at") WHERE retry_at is not null;--> statement-breakpoint
CREATE INDEX "related_link_by_key" ON "tidemark"."related_link" USING btree ("stream","key");