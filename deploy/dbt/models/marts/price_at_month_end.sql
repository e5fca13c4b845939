{{ config(enabled=var('history')) }}
-- What was the work of each status worth at the end of each month, as it was known then? The last line is the month that is not over.
with versions as (
    select assignment_status_id, price, valid_from_local, valid_to_local
    from {{ ref('stg_tidemark__assignment_versions') }}
    where not is_deleted
),

months as (
    select month::date as month, month + interval '1 month' as ends
    from
        generate_series(
            (select date_trunc('month', min(valid_from_local)) from versions),
            (select date_trunc('month', max(valid_from_local)) from versions),
            interval '1 month'
        ) as month
)

select
    months.month,
    versions.assignment_status_id,
    count(*) as assignments,
    sum(versions.price) as price
from months
inner join versions
    on versions.valid_from_local < months.ends and (versions.valid_to_local >= months.ends or versions.valid_to_local is null)
group by 1, 2
