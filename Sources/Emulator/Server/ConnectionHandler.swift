import Basics
import NIOCore
import NIOHTTP1

/// Turns the messages of one connection into exchanges, one at a time, and slows the client down to the pace of whoever
/// reads the body. Lives on the connection's event loop.
final class ConnectionHandler: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private let serve: @Sendable (Exchange) -> Void
    private let time: any TimeSource
    private var body: RequestBody?

    init(time: any TimeSource, serve: @escaping @Sendable (Exchange) -> Void) {
        (self.time, self.serve) = (time, serve)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): begin(head, context)
        case .body(let chunk): body?.append(chunk)
        case .end: body?.end()
        }
    }

    private func begin(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) {
        let channel = context.channel
        let expects = head.headers["expect"].contains { $0.lowercased() == "100-continue" }
        let sendContinue: @Sendable () -> Void = {
            let head = HTTPResponseHead(version: .http1_1, status: .continue)
            channel.writeAndFlush(HTTPServerResponsePart.head(head), promise: nil)
        }
        let body = RequestBody(time: time, onDemand: expects ? sendContinue : nil)
        self.body = body
        let request = ServerRequest(
            method: head.method.rawValue, target: head.uri, headers: head.headers, id: RandomID.hex().uppercased())
        let address = channel.remoteAddress?.ipAddress ?? ""
        serve(
            Exchange(
                request: request, body: body, channel: channel, isKeptAlive: head.isKeepAlive,
                isFromLoopback: EmulatorServer.isLoopback(address)))
    }

    func read(context: ChannelHandlerContext) {
        guard let body else { return context.read() }
        let channel = context.channel
        if body.hasRoom(orElse: { channel.eventLoop.execute { channel.read() } }) { context.read() }
    }

    func channelInactive(context: ChannelHandlerContext) {
        body?.disconnect()
        context.fireChannelInactive()
    }

    /// A client that goes away in the middle of a body counts as bad framing too, and may have had its answer already:
    /// only what never became a request is told.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard body == nil, error is HTTPParserError else {
            body?.disconnect()
            // Bytes after a request that was whole are met when its answer has just been written.
            context.flush()
            return context.close(promise: nil)
        }
        let head = HTTPResponseHead(
            version: .http1_1, status: .badRequest, headers: ["Connection": "close", "Content-Length": "0"])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        let channel = context.channel
        context.writeAndFlush(wrapOutboundOut(.end(nil))).whenComplete { _ in channel.close(promise: nil) }
    }
}
