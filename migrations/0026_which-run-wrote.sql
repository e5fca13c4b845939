CREATE TABLE "tidemark"."page" (
	"table" text NOT NULL,
	"written_at" timestamp with time zone NOT NULL,
	"run_id" bigint NOT NULL
);
--> statement-breakpoint
CREATE INDEX "page_by_time" ON "tidemark"."page" USING btree ("table","written_at");--> statement-breakpoint
CREATE INDEX "page_by_run" ON "tidemark"."page" USING btree ("run_id");