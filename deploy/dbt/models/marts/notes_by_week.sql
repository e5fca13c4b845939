-- Who writes how many notes, on how many assignments, and how many of them are internal?
select
    date_trunc('week', note_date_local)::date as week,
    employee_id,
    count(*) as notes,
    count(distinct assignment_id) as assignments,
    count(*) filter (where is_internal) as internal_notes
from {{ ref('stg_tidemark__assignment_note') }}
group by 1, 2
