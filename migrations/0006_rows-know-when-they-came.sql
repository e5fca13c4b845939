-- Tables of the mirror that were made without these defaults. A page that is all new is copied straight into its table.
DO $$
DECLARE mirrored regclass;
BEGIN
  FOR mirrored IN
    SELECT pg_class.oid FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE relnamespace = to_regnamespace('mirror') AND relkind = 'r' AND attname = '_first_seen_at'
  LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN _first_seen_at SET DEFAULT now(), ALTER COLUMN _synced_at SET DEFAULT now()', mirrored);
  END LOOP;
END $$;
