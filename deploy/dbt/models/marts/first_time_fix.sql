-- How much work was done at the first visit: without more work of the same type for the same customer within 30 days after its end?
with visits as (
    select
        assignment_type_id,
        actual_end,
        actual_end_local,
        lead(actual_start) over (partition by customer_id, assignment_type_id order by actual_start) as next_start
    from {{ ref('stg_tidemark__assignment') }}
    where actual_start is not null and customer_id is not null
),

judged as (
    select *, coalesce(next_start <= actual_end + interval '30 days', false) as came_back
    from visits
    where actual_end is not null
)

select
    date_trunc('month', actual_end_local)::date as month,
    assignment_type_id,
    count(*) as finished,
    count(*) filter (where not came_back) as fixed_first_time,
    round(avg((not came_back)::int), 3) as share
from judged
group by 1, 2
