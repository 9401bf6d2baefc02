//! Rows of several batches as one batch, so that what was parted goes on together.
//!
//! A column that all of them share is shared by the new batch too; only one that differs is copied, row by row.

use std::sync::Arc;

use super::{Batch, Types};
use crate::column::{BytesBuilder, BytesColumn, Column, ColumnFull, MOST};
use crate::headers::{HeaderBuilder, HeaderColumn};
use crate::source::SourceColumn;

/// A row: which of the batches, and which row of it.
pub type Place = (u32, u32);

impl Batch {
    /// The batch of these rows, in this order; each is named by the place of its batch in `parts` and its row there.
    /// Panics where there is no such row. An error is a column that would be too large; rows of one batch always have room.
    pub fn gather(parts: &[&Batch], rows: &[Place]) -> Result<Batch, ColumnFull> {
        let mut gather = Gather { parts, rows, indexes: Vec::new() };
        Ok(Batch {
            rows: u32::try_from(rows.len()).expect("a batch holds less than 2^32 rows"),
            payload: match gather.shared(|part| Some(&part.payload)) {
                Some(payload) => payload,
                None => gather.copy(Batch::payload)?,
            },
            key: gather.keys()?,
            headers: gather.headers()?,
            source: gather.shared(|part| Some(&part.source)).unwrap_or_else(|| gather.sources()),
            name: gather.names()?,
            former_key: gather.former_keys()?,
            types: gather.types(),
        })
    }
}

struct Gather<'a> {
    parts: &'a [&'a Batch],
    rows: &'a [Place],
    /// Of the columns so far: columns that had one index go on sharing one.
    indexes: Vec<Arc<[u32]>>,
}

impl<'a> Gather<'a> {
    fn each(&self) -> impl Iterator<Item = (&'a Batch, u32)> + use<'a> {
        let parts = self.parts;
        self.rows.iter().map(move |(part, row)| (parts[*part as usize], *row))
    }

    /// The column, seen through other rows, where every part has the same data for it.
    fn shared<T: 'a>(&mut self, of: impl Fn(&'a Batch) -> Option<&'a Column<T>>) -> Option<Column<T>> {
        let first = of(self.parts.first()?)?;
        if !self.parts.iter().all(|part| of(part).is_some_and(|column| column.has_data_of(first))) {
            return None;
        }
        let index: Vec<u32> =
            self.each().map(|(part, row)| of(part).map_or(0, |column| column.at(row)) as u32).collect();
        let known = self.indexes.iter().find(|known| known[..] == index[..]).cloned();
        let index = known.unwrap_or_else(|| {
            let index: Arc<[u32]> = index.into();
            self.indexes.push(index.clone());
            index
        });
        Some(first.seen_through(index))
    }

    fn copy(
        &self,
        value: impl Fn(&'a Batch, u32) -> Option<&'a [u8]>,
    ) -> Result<Column<BytesColumn>, ColumnFull> {
        let bytes: usize = self.each().map(|(part, row)| value(part, row).map_or(0, <[u8]>::len)).sum();
        if bytes > MOST {
            return Err(ColumnFull { limit: MOST });
        }
        let mut column = BytesBuilder::with_capacity(self.rows.len(), bytes);
        self.each().try_for_each(|(part, row)| column.push(value(part, row)))?;
        Ok(Column::new(column.finish()))
    }

    fn keys(&mut self) -> Result<Option<Column<BytesColumn>>, ColumnFull> {
        if self.parts.iter().all(|part| part.key.is_none()) {
            return Ok(None);
        }
        let shared = self.shared(|part| part.key.as_ref());
        shared.map_or_else(|| self.copy(Batch::key), Ok).map(Some)
    }

    fn headers(&mut self) -> Result<Option<Column<HeaderColumn>>, ColumnFull> {
        if self.parts.iter().all(|part| part.headers.is_none()) {
            return Ok(None);
        }
        if let Some(shared) = self.shared(|part| part.headers.as_ref()) {
            return Ok(Some(shared));
        }
        let mut headers = HeaderBuilder::new();
        self.each().try_for_each(|(part, row)| headers.push_row(part.headers(row)))?;
        Ok(Some(Column::new(headers.finish())))
    }

    fn names(&mut self) -> Result<Option<Column<BytesColumn>>, ColumnFull> {
        if self.parts.iter().all(|part| part.name.is_none()) {
            return Ok(None);
        }
        let name = |part: &'a Batch, row| Some(part.name(row).as_bytes());
        let shared = self.shared(|part| part.name.as_ref());
        shared.map_or_else(|| self.copy(name), Ok).map(Some)
    }

    fn sources(&self) -> Column<SourceColumn> {
        let columns: Vec<&SourceColumn> = self.parts.iter().map(|part| part.source.data()).collect();
        let at = |(part, row): &Place| (*part as usize, self.parts[*part as usize].source.at(*row));
        Column::new(SourceColumn::gathered(&columns, self.rows.iter().map(at)))
    }

    fn types(&self) -> Option<Types> {
        if self.parts.iter().all(|part| part.types.is_none()) {
            return None;
        }
        let mut names: Vec<Arc<str>> = Vec::new();
        let number = |(part, row): (&'a Batch, u32)| {
            let Some(name) = part.type_of(row) else { return Types::NONE };
            let known = names.iter().position(|known| known == name);
            known.unwrap_or_else(|| {
                names.push(name.clone());
                names.len() - 1
            }) as u32
        };
        let of = Column::new(self.each().map(number).collect());
        Some(Types { names: names.into(), of })
    }

    /// Keys as they came to the node that replaced them; of a part whose keys were not replaced, its keys.
    fn former_keys(&self) -> Result<Option<Option<Column<BytesColumn>>>, ColumnFull> {
        if self.parts.iter().all(|part| part.former_key.is_none()) {
            return Ok(None);
        }
        let former = |part: &'a Batch, row| match &part.former_key {
            Some(key) => key.as_ref().and_then(|key| key.data().get(key.at(row))),
            None => part.key(row),
        };
        Ok(Some(Some(self.copy(former)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Place;
    use crate::batch::{Batch, BatchBuilder, Changes, RecordRef};
    use crate::column::BytesBuilder;
    use crate::ids::RecordOffset;

    /// One record a letter, of a topic; keys and headers where they are asked for.
    fn letters(topic: &str, text: &str, dressed: bool) -> Batch {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("other"), Arc::from(topic)]));
        for (offset, letter) in text.bytes().enumerate() {
            let letter = [letter];
            if dressed {
                builder.header(b"h", Some(&letter));
            }
            builder
                .push(RecordRef {
                    topic: 1,
                    partition: 3,
                    offset: RecordOffset(offset as i64),
                    timestamp_ms: dressed.then_some(7),
                    key: dressed.then_some(&letter[..]),
                    payload: Some(&letter),
                    row: if dressed { "1" } else { "" },
                })
                .unwrap();
        }
        builder.finish()
    }

    fn told(batch: &Batch) -> Vec<String> {
        let text = |bytes: Option<&[u8]>| {
            bytes.map_or("-".into(), |bytes| String::from_utf8(bytes.to_vec()).unwrap())
        };
        (0..batch.len() as u32)
            .map(|row| {
                let source = batch.source(row);
                let headers: Vec<_> = batch.headers(row).map(|(_, value)| text(value)).collect();
                format!(
                    "{} {} {:?} {} {} {:?} {:?}",
                    text(batch.payload(row)),
                    text(batch.key(row)),
                    headers,
                    source.topic,
                    source.offset.0,
                    source.timestamp_ms,
                    source.row
                )
            })
            .collect()
    }

    /// What each row is in its own batch.
    fn expected(parts: &[&Batch], rows: &[Place]) -> Vec<String> {
        let parts: Vec<_> = parts.iter().map(|part| told(part)).collect();
        rows.iter().map(|(part, row)| parts[*part as usize][*row as usize].clone()).collect()
    }

    #[test]
    fn rows_of_unlike_batches_keep_all_that_they_have() {
        let (plain, dressed) = (letters("in", "abc", false), letters("second", "xyz", true));
        let parts = [&plain, &dressed.select(&[2, 0])];
        let rows = [(1, 0), (0, 2), (0, 0), (1, 1), (1, 1)];
        let batch = Batch::gather(&parts, &rows).unwrap();
        assert_eq!(told(&batch), expected(&parts, &rows));
        // Columns that only some have are there, with nothing for the others.
        assert_eq!(told(&batch)[0], "z z [\"z\"] second 2 Some(7) \"1\"");
        assert_eq!(told(&batch)[1], "c - [] in 2 None \"\"");
        assert!([&parts[..], &[]].iter().all(|parts| Batch::gather(parts, &[]).unwrap().is_empty()));
    }

    #[test]
    fn what_all_have_in_common_is_shared_and_not_copied() {
        let batch = letters("in", "abcd", true);
        let mut payload = BytesBuilder::new();
        [&b"B"[..], b"D"].into_iter().for_each(|value| payload.push(Some(value)).unwrap());
        let changes = Changes { payload: Some(payload.finish()), ..Changes::default() };
        let parts = [&batch.select(&[0, 2]), &batch.select(&[1, 3]).with(changes)];
        let rows = [(0, 0), (1, 0), (0, 1), (1, 1)];
        let gathered = Batch::gather(&parts, &rows).unwrap();
        assert_eq!(told(&gathered), expected(&parts, &rows));
        assert!(gathered.source.has_data_of(&batch.source));
        assert!(gathered.key.as_ref().unwrap().has_data_of(batch.key.as_ref().unwrap()));
        assert!(!gathered.payload.has_data_of(&batch.payload));
        assert!(gathered.source.has_index_of(gathered.key.as_ref().unwrap()));
    }

    #[test]
    fn keys_before_they_were_replaced_are_remembered() {
        let (plain, dressed) = (letters("in", "ab", false), letters("in", "xy", true));
        let mut key = BytesBuilder::new();
        [&b"1"[..], b"2"].into_iter().for_each(|value| key.push(Some(value)).unwrap());
        let parts = [&plain.rekeyed(key.finish()), &dressed];
        let gathered = Batch::gather(&parts, &[(1, 1), (0, 0)]).unwrap();
        assert_eq!((gathered.key(0), gathered.key(1)), (Some(&b"y"[..]), Some(&b"1"[..])));
        let former = gathered.with_former_keys();
        assert_eq!((former.key(0), former.key(1)), (Some(&b"y"[..]), None));
    }
}
