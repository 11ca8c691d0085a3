"""The flags of a measurement as one text: of most it is empty, and takes 12 bytes less of a row, and of its index entry.

PostgreSQL writes the table and its indexes anew, in their order: it needs room for both at the same time, and no other
process can read or write measurements meanwhile.
"""

from django.db import migrations

from speedtrack.ground.postgres.words import WordsField

# The view keeps its column's type. It is replaced, not dropped, because people may have made views of it, or granted it.
EXCHANGE = r"""
SET LOCAL statement_timeout = 0;
DO $$
DECLARE
  shown CONSTANT text := 'CREATE OR REPLACE VIEW export_points AS ' || pg_get_viewdef('export_points'::regclass);
  flags_line CONSTANT text := '^.*\mflags,$';
BEGIN
  EXECUTE regexp_replace(shown, flags_line, 'NULL::varchar(40)[] AS flags,', 'n');
  ALTER TABLE runs_measurement ALTER COLUMN flags TYPE {kind};
  EXECUTE regexp_replace(shown, flags_line, '{column},', 'n');
END $$;
"""
FORWARD = EXCHANGE.format(
    kind="text USING array_to_string(flags, ',')",
    column="string_to_array(me.flags, '','')::varchar(40)[] AS flags",
)
BACK = EXCHANGE.format(kind="varchar(40)[] USING string_to_array(flags, ',')", column="me.flags")


class Migration(migrations.Migration):
    dependencies = [("runs", "0012_narrow_index_of_attempts"), ("alerts", "0005_measured_at_of_outside_points")]

    operations = [
        migrations.RunSQL(
            FORWARD,
            BACK,
            state_operations=[
                migrations.AlterField(
                    "measurement",
                    "flags",
                    WordsField(default=list, help_text="why the value is not to be trusted"),
                )
            ],
        )
    ]
