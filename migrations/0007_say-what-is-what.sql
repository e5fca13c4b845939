-- Somebody else may have made the schemas and lent them; only an owner describes.
DO $$
DECLARE
	described record;
BEGIN
	FOR described IN
		SELECT nspname, words
		FROM (VALUES
			('bi', 'for BI tools: a view for each stream, with its living rows'),
			('mirror', 'the tables behind the views of bi, with deleted rows and the mirror’s own columns'),
			('tidemark', 'what Tidemark knows and has done; for BI tools only the view freshness')
		) AS told (name, words)
		JOIN pg_namespace ON nspname = told.name
		WHERE pg_has_role(nspowner, 'usage')
	LOOP
		EXECUTE format('comment on schema %I is %L', described.nspname, described.words);
	END LOOP;
END $$;--> statement-breakpoint
COMMENT ON VIEW "tidemark"."freshness" IS 'how complete each stream is, for reports to join';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."stream" IS 'name of the stream, and of its view in bi';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."complete_through_version" IS 'row version through which the mirror is complete; empty for streams without one';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."complete_through_time" IS 'moment through which the mirror is complete';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_success_at" IS 'when a run that asked the upstream last ended well';--> statement-breakpoint
COMMENT ON COLUMN "tidemark"."freshness"."last_census_at" IS 'when everything was last listed to find what is missing or gone';
