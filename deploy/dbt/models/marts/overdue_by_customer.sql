-- Whose work should be done by now and is not? Measured at the time up to which the data are complete.
select
    customer_id,
    max(customer_name) as customer_name,
    count(*) as assignments,
    min(planned_end_local)::date as planned_since,
    sum(price) as price
from {{ ref('stg_tidemark__assignment') }}
where
    actual_end is null
    and planned_end < (
        select read_through_time
        from {{ ref('stg_tidemark__freshness') }}
        where stream = 'assignment'
    )
group by 1
