CREATE TABLE "tidemark"."problem_history" (
	"id" bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY (sequence name "tidemark"."problem_history_id_seq" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1),
	"key" text NOT NULL,
	"kind" text NOT NULL,
	"stream" text,
	"what" text NOT NULL,
	"since" timestamp with time zone NOT NULL,
	"seen_at" timestamp with time zone NOT NULL,
	"ended_at" timestamp with time zone
);
--> statement-breakpoint
CREATE UNIQUE INDEX "problem_that_lasts" ON "tidemark"."problem_history" USING btree ("key") WHERE ended_at is null;--> statement-breakpoint
CREATE INDEX "problem_by_end" ON "tidemark"."problem_history" USING btree ("ended_at");