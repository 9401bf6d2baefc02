//! What a batch keeps in memory, and rows of it as a batch that keeps nothing else.

use std::sync::Arc;

use super::{Batch, Changes, Rows, Types};
use crate::column::{BytesBuilder, BytesColumn, Column, ColumnFull};
use crate::headers::{HeaderBuilder, HeaderColumn};
use crate::source::SourceColumn;

impl Batch {
    /// Every piece of memory that the batch keeps, with its address and its bytes; batches that share one name the same
    /// address.
    pub fn each_memory(&self, mut each: impl FnMut(usize, usize)) {
        let bytes = [Some(&self.payload), self.key.as_ref(), self.name.as_ref()];
        let former = self.former_key.as_ref().and_then(Option::as_ref);
        bytes.into_iter().chain([former]).flatten().for_each(|column| {
            each(column.address(), column.data().memory());
        });
        if let Some(headers) = &self.headers {
            each(headers.address(), headers.data().memory());
        }
        each(self.source.address(), self.source.data().memory());
        if let Some(types) = &self.types {
            each(types.of.address(), 4 * types.of.data().capacity());
        }
    }

    /// The bytes that the batch keeps in memory, those that it shares with others too.
    #[must_use]
    pub fn memory(&self) -> usize {
        let mut bytes = 0;
        self.each_memory(|_, piece| bytes += piece);
        bytes
    }

    /// The batch of these rows, in this order, as [`Batch::select`] gives it, with copies of their values: the rows that are
    /// left out can be forgotten. An error is a column that would be too large, where rows share values.
    pub fn copied(&self, rows: &Rows) -> Result<Batch, ColumnFull> {
        let source = self.source.data();
        Ok(Batch {
            rows: u32::try_from(rows.len()).expect("a batch holds less than 2^32 rows"),
            payload: bytes(&self.payload, rows)?,
            key: self.key.as_ref().map(|key| bytes(key, rows)).transpose()?,
            headers: self.headers.as_ref().map(|column| headers(column, rows)).transpose()?,
            source: Column::new(SourceColumn::gathered(
                &[source],
                rows.iter().map(|row| (0, self.source.at(*row))),
            )),
            name: self.name.as_ref().map(|name| bytes(name, rows)).transpose()?,
            former_key: match &self.former_key {
                Some(Some(key)) => Some(Some(bytes(key, rows)?)),
                Some(None) => Some(None),
                None => None,
            },
            types: self.types.as_ref().map(|types| Types {
                names: Arc::clone(&types.names),
                of: Column::new(rows.iter().map(|row| types.of.data()[types.of.at(*row)]).collect()),
            }),
        })
    }
}

impl Changes {
    /// The bytes that they take in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let bytes = [&self.payload, &self.key].into_iter().flatten().map(BytesColumn::memory).sum::<usize>();
        bytes + self.headers.as_ref().map_or(0, HeaderColumn::memory)
    }
}

fn bytes(column: &Column<BytesColumn>, rows: &Rows) -> Result<Column<BytesColumn>, ColumnFull> {
    let data = column.data();
    let size = rows.iter().map(|row| data.value(column.at(*row)).len()).sum();
    let mut copy = BytesBuilder::with_capacity(rows.len(), size);
    rows.iter().try_for_each(|row| copy.push(data.get(column.at(*row))))?;
    Ok(Column::new(copy.finish()))
}

fn headers(column: &Column<HeaderColumn>, rows: &Rows) -> Result<Column<HeaderColumn>, ColumnFull> {
    let mut copy = HeaderBuilder::new();
    rows.iter().try_for_each(|row| copy.push_row(column.data().get(column.at(*row))))?;
    Ok(Column::new(copy.finish()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use crate::batch::{Batch, BatchBuilder, Changes, RecordRef};
    use crate::column::BytesBuilder;
    use crate::ids::RecordOffset;

    const ROWS: u32 = 100;

    /// Rows of 1,000 bytes, dressed with all that a row can have.
    fn batch() -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        let mut names = BytesBuilder::new();
        for row in 0..ROWS {
            let value = vec![row as u8; 1000];
            builder.header(b"h", Some(&[row as u8]));
            let offset = RecordOffset(i64::from(row));
            let (key, payload) = (Some(&value[..10]), (row % 7 != 0).then_some(&value[..]));
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 3,
                    offset,
                    timestamp_ms: Some(7),
                    key,
                    payload,
                    row: "",
                })
                .unwrap();
            names.push(Some(row.to_string().as_bytes())).unwrap();
        }
        let types = (0..ROWS).map(|row| row % 2).collect();
        let mut keys = BytesBuilder::new();
        (0..ROWS).for_each(|row| keys.push(Some(&[row as u8])).unwrap());
        let named = builder.finish().named(names.finish()).typed(Arc::from(["a".into(), "b".into()]), types);
        named.rekeyed(keys.finish())
    }

    fn told(batch: &Batch, row: u32) -> String {
        let headers: Vec<_> = batch.headers(row).collect();
        let former = batch.clone().with_former_keys();
        let (payload, key) = (batch.payload(row).map(<[u8]>::len), batch.key(row));
        let (source, of, number) = (batch.source(row), batch.type_of(row), batch.type_number(row));
        format!("{payload:?} {key:?} {:?} {headers:?} {source:?} {of:?} {number:?}", former.key(row))
    }

    fn memory(batches: &[&Batch]) -> usize {
        let mut pieces = BTreeMap::new();
        for batch in batches {
            batch.each_memory(|at, bytes| {
                pieces.insert(at, bytes);
            });
        }
        pieces.values().sum()
    }

    #[test]
    fn copies_are_the_rows_and_keep_nothing_else() {
        let all = batch();
        let seen = all.select(&(0..ROWS).rev().collect::<Vec<u32>>());
        let rows = [3, 50, 98];
        let copied = seen.copied(&rows).unwrap();
        for (place, row) in rows.iter().enumerate() {
            assert_eq!(told(&copied, place as u32), told(&seen, *row));
        }
        assert!(memory(&[&all]) > 85_000, "{}", memory(&[&all]));
        assert!(memory(&[&copied]) < 4_000, "{}", memory(&[&copied]));
        assert!(seen.copied(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_batches_share_is_one_piece_of_memory() {
        let all = batch();
        let part = all.select(&[1, 2]);
        assert_eq!(memory(&[&all, &part]), memory(&[&all]));
        let mut payload = BytesBuilder::new();
        (0..2).for_each(|_| payload.push(Some(&[0; 500])).unwrap());
        let changed = part.with(Changes { payload: Some(payload.finish()), ..Changes::default() });
        let more = memory(&[&all, &changed]) - memory(&[&all]);
        assert!((1000..1200).contains(&more), "{more}");
    }

    #[test]
    fn a_row_counts_its_headers() {
        let all = batch();
        assert_eq!(all.row_bytes(1), 1000 + 1 + 2 + 8);
        assert!(all.row_memory(1) > all.row_bytes(1) + 10);
    }
}
