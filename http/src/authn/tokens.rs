//! The static token file, in the format of kube-apiserver's `--token-auth-file`.

use std::io::{self, Read as _};
use std::{collections::HashMap, fs::File, path::Path, sync::Arc};

use kindom_api::user::User;

/// A static token file is held in memory; a larger one is a mistake.
const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Users by bearer token.
///
/// Found by a keyed hash, so that the time of a look-up reveals nothing about the tokens.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Tokens(Arc<HashMap<String, Arc<User>>>);

/// The reason why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be read.
    #[error("token file {file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// Why.
        error: io::Error,
    },
    /// A line of it is wrong.
    #[error("token file {file}, line {line}: {reason}")]
    Line {
        /// The file.
        file: String,
        /// The line at which the record starts, from 1.
        line: usize,
        /// The error; never contains a token.
        reason: &'static str,
    },
}

fn too_large(file: &str) -> TokenError {
    TokenError::Line { file: file.to_owned(), line: 1, reason: "the file is larger than 16 MiB" }
}

impl Tokens {
    /// Reads a file of records `token,user name,user uid` or `token,user name,user uid,"group1,group2"`
    /// (CSV as Go's `encoding/csv` reads it). Empty lines, records with an empty token and columns past the fourth are
    /// skipped; of a token that appears twice the last record counts.
    ///
    /// # Errors
    /// See [`TokenError`].
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let file = path.display().to_string();
        let wrong = |error| TokenError::Read { file: file.clone(), error };
        let mut bytes = Vec::new();
        let open = File::open(path).map_err(wrong)?;
        // One byte more than a file may have: enough to refuse it, however large it is.
        open.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(wrong)?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(too_large(&file));
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| wrong(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        Self::parse(&text, &file)
    }

    /// Parses the text of such a file; `file` is its name for errors.
    ///
    /// # Errors
    /// [`TokenError::Line`].
    pub fn parse(text: &str, file: &str) -> Result<Self, TokenError> {
        let wrong = |line, reason| TokenError::Line { file: file.to_owned(), line, reason };
        if text.len() > FILE_BYTES_MAX {
            return Err(too_large(file));
        }
        let mut users = HashMap::new();
        let text = end_lines_as_go(text);
        let mut records = Records { rest: &text, line: 1 };
        while let Some(record) = records.next_record() {
            let (line, fields) = record.map_err(|(line, reason)| wrong(line, reason))?;
            let [token, name, uid, more @ ..] = fields.as_slice() else {
                return Err(wrong(
                    line,
                    "a record must have at least 3 columns (token, user name, user uid)",
                ));
            };
            if token.is_empty() {
                tracing::warn!(file, line, "an empty token is skipped");
                continue;
            }
            let groups = more.first().map(String::as_str).unwrap_or_default();
            let user = User {
                name: name.clone(),
                uid: uid.clone(),
                groups: groups.split(',').filter(|group| !group.is_empty()).map(str::to_owned).collect(),
                ..User::default()
            };
            if users.insert(token.clone(), Arc::new(user.authenticated())).is_some() {
                tracing::warn!(file, line, "a token appears twice, the last record counts");
            }
        }
        Ok(Self(Arc::new(users)))
    }

    /// The user that `token` belongs to.
    #[must_use]
    pub fn get(&self, token: &str) -> Option<Arc<User>> {
        self.0.get(token).cloned()
    }
}

/// Shows how many there are and none of them.
impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

/// Every line ends in `\n`, also within quotes, and one `\r` at the end of the text is none of it (`Reader.readLine` of Go's
/// `encoding/csv`).
fn end_lines_as_go(text: &str) -> String {
    text.strip_suffix('\r').unwrap_or(text).replace("\r\n", "\n")
}

/// CSV records and the lines they start on.
struct Records<'a> {
    rest: &'a str,
    line: usize,
}

type Record = Result<(usize, Vec<String>), (usize, &'static str)>;

impl Records<'_> {
    fn next_record(&mut self) -> Option<Record> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            if !self.end_of_line() {
                break;
            }
        }
        let start = self.line;
        let mut fields = Vec::new();
        loop {
            match self.field() {
                Ok(field) => fields.push(field),
                Err(reason) => return Some(Err((start, reason))),
            }
            if let Some(rest) = self.rest.strip_prefix(',') {
                self.rest = rest;
            } else {
                // A field ends at a comma, at the end of its line or of the text.
                self.end_of_line();
                return Some(Ok((start, fields)));
            }
        }
    }

    /// Steps over an end of line, if there is one here.
    fn end_of_line(&mut self) -> bool {
        let rest = self.rest.strip_prefix('\n');
        if let Some(rest) = rest {
            self.rest = rest;
            self.line += 1;
        }
        rest.is_some()
    }

    fn field(&mut self) -> Result<String, &'static str> {
        match self.rest.strip_prefix('"') {
            Some(quoted) => self.quoted(quoted),
            None => {
                let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
                let (field, rest) = self.rest.split_at(end);
                self.rest = rest;
                if field.contains('"') {
                    Err("a quote in a field that is not quoted")
                } else {
                    Ok(field.to_owned())
                }
            }
        }
    }

    /// `rest` starts behind the opening quote.
    fn quoted(&mut self, mut rest: &str) -> Result<String, &'static str> {
        let mut field = String::new();
        loop {
            let Some((part, behind)) = rest.split_once('"') else {
                return Err("a quoted field has no end");
            };
            field.push_str(part);
            if let Some(behind) = behind.strip_prefix('"') {
                field.push('"');
                rest = behind;
                continue;
            }
            if !(behind.is_empty() || behind.starts_with([',', '\n'])) {
                return Err("text after the end of a quoted field");
            }
            self.line += field.matches('\n').count();
            // `behind` is a tail of `self.rest`.
            self.rest = self.rest.split_at(self.rest.len() - behind.len()).1;
            return Ok(field);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Tokens, String> {
        Tokens::parse(text, "t.csv").map_err(|error| error.to_string())
    }

    fn show(tokens: &Tokens, token: &str) -> String {
        match tokens.get(token) {
            Some(user) => format!("{} {} {:?}", user.name, user.uid, user.groups),
            None => "nobody".to_owned(),
        }
    }

    #[test]
    fn records_of_three_and_four_columns() {
        let tokens = parse(concat!(
            "t1,alice,1\n",
            "\n",
            "t2,bob,2,\"dev,ops\"\r\n",
            "t3,carol,,solo,ignored,columns\n",
            "\"t\"\"4\",\"da,ve\",\"4\n5\",\"\"\n",
            ",nobody,9\n",
            "t1,alice again,1"
        ))
        .unwrap();
        assert_eq!(show(&tokens, "t1"), r#"alice again 1 ["system:authenticated"]"#);
        assert_eq!(show(&tokens, "t2"), r#"bob 2 ["dev", "ops", "system:authenticated"]"#);
        assert_eq!(show(&tokens, "t3"), r#"carol  ["solo", "system:authenticated"]"#);
        assert_eq!(show(&tokens, "t\"4"), "da,ve 4\n5 [\"system:authenticated\"]");
        assert_eq!(show(&tokens, ""), "nobody");
        assert_eq!(format!("{tokens:?}"), "Tokens(4)", "no token is shown");
        assert_eq!(show(&parse("").unwrap(), "t1"), "nobody");
    }

    #[test]
    fn errors_name_file_and_line_and_no_token() {
        let wrong = |text: &str| parse(text).unwrap_err();
        let columns = "a record must have at least 3 columns (token, user name, user uid)";
        assert_eq!(wrong("secret,alice\n"), format!("token file t.csv, line 1: {columns}"));
        assert_eq!(
            wrong("t,a,1\n\r\nt,a,\"1\n2\"\nsecret\n"),
            format!("token file t.csv, line 5: {columns}")
        );
        assert_eq!(
            wrong("t,a,1\nsec\"ret,a,1\n"),
            "token file t.csv, line 2: a quote in a field that is not quoted"
        );
        assert_eq!(wrong("\"secret,a,1\n"), "token file t.csv, line 1: a quoted field has no end");
        assert_eq!(
            wrong("\"secret\"x,a,1\n"),
            "token file t.csv, line 1: text after the end of a quoted field"
        );
        let missing = Tokens::read(Path::new("/nonexistent/t.csv")).unwrap_err().to_string();
        assert!(missing.starts_with("token file /nonexistent/t.csv: No such file"), "{missing}");
    }

    /// No test has so much memory as this file is long.
    #[test]
    fn no_more_is_read_than_a_file_may_have() {
        let file = std::env::temp_dir().join(format!("kindom-tokens-{}", std::process::id()));
        std::fs::File::create(&file).unwrap().set_len(1 << 43).unwrap();
        let error = Tokens::read(&file).unwrap_err().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(error.ends_with("line 1: the file is larger than 16 MiB"), "{error}");
    }

    #[test]
    fn any_text_ends() {
        for text in
            ["\"", "\"\"", ",", ",,", ",,,", "\r", "\r\r\n", "a\rb,c,d", "\"a\"\"", "ü,ü,ü", "a,b,\"c\"\r"]
        {
            let _ = parse(text);
        }
        assert_eq!(show(&parse("a\rb,c,d").unwrap(), "a\rb"), r#"c d ["system:authenticated"]"#);
        assert_eq!(show(&parse("a,\"b\r\nc\",d\r").unwrap(), "a"), "b\nc d [\"system:authenticated\"]");
        assert_eq!(show(&parse("a,b,c\r\r\n\r").unwrap(), "a"), "b c\r [\"system:authenticated\"]");
    }
}
