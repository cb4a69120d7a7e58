//! Bodies: what goes to the agent, and what comes back to the client.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// The error of a body: the inner one's own, or the reason why the proxy gave up.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Boxed = UnsyncBoxBody<Bytes, BoxError>;

fn boxed<B>(body: B) -> Boxed
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}

macro_rules! body_of_two {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name(Inner);

        impl $name {
            /// A body that is passed on as it streams in.
            pub fn untouched<B>(body: B) -> Self
            where
                B: Body<Data = Bytes> + Send + 'static,
                B::Error: Into<BoxError>,
            {
                Self(Inner::Untouched(boxed(body)))
            }

            /// A body that is there as a whole.
            pub fn whole(bytes: impl Into<Bytes>) -> Self {
                Self(Inner::Whole(Full::new(bytes.into())))
            }

            /// No body.
            pub fn empty() -> Self {
                Self::whole(Bytes::new())
            }
        }

        impl Body for $name {
            type Data = Bytes;
            type Error = BoxError;

            fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
                match &mut self.get_mut().0 {
                    Inner::Untouched(body) => Pin::new(body).poll_frame(cx),
                    Inner::Whole(body) => Pin::new(body).poll_frame(cx).map_err(|never| match never {}),
                }
            }

            fn is_end_stream(&self) -> bool {
                match &self.0 {
                    Inner::Untouched(body) => body.is_end_stream(),
                    Inner::Whole(body) => body.is_end_stream(),
                }
            }

            fn size_hint(&self) -> SizeHint {
                match &self.0 {
                    Inner::Untouched(body) => body.size_hint(),
                    Inner::Whole(body) => body.size_hint(),
                }
            }
        }
    };
}

#[derive(Debug)]
enum Inner {
    /// Somebody else's body, frame by frame.
    Untouched(Boxed),
    /// Bytes of ours, or read whole and changed.
    Whole(Full<Bytes>),
}

body_of_two! {
    /// What the layer hands to the service inside: the client's body as it came, or the bytes that it was changed to.
    RequestBody
}

body_of_two! {
    /// What the layer answers with: the inner body as it came, or the bytes that it was changed to.
    ReplyBody
}
