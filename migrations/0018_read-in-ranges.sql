ALTER TABLE "tidemark"."backfill" ADD COLUMN "unread" jsonb;--> statement-breakpoint
ALTER TABLE "tidemark"."stream" ADD COLUMN "unread" jsonb;--> statement-breakpoint
-- Whoever moves a position back has everything above it read again.
CREATE FUNCTION "tidemark"."forget_unread"() RETURNS trigger
  LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
begin
  new.unread := null;
  return new;
end
$$;--> statement-breakpoint
CREATE TRIGGER "position_went_back" BEFORE UPDATE OF "position" ON "tidemark"."stream"
  FOR EACH ROW WHEN (new.position < old.position) EXECUTE FUNCTION "tidemark"."forget_unread"();
